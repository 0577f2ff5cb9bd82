#include "plugin/kubelet/plugin_server.h"

#include <fmt/format.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <optional>
#include <random>
#include <utility>

#include "common/base/text.h"
#include "plugin/allocation/limits.h"
#include "plugin/kubelet/limits.h"
#include "plugin/kubelet/plugin_service.h"
#include "plugin/kubelet/unix_channel.h"

namespace mgpu::plugin {
namespace {

Error cannot_serve(const std::string& path, int number) {
  return error(fmt::format("cannot serve on {}: {}", in_quotes(path), std::strerror(number)));
}

// Where gRPC makes the socket. It is then renamed: gRPC removes the file it made when the server
// ends, and by then that name may be another process's.
std::string temporary_socket_path(const std::string& folder) {
  return fmt::format("{}/.mgpu-{:08x}", folder, std::random_device()());
}

std::unique_ptr<grpc::Server> listen(const std::string& path, PluginService& service) {
  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota("device plugin");
  quota.SetMaxThreads(kPluginThreadsMax + kPluginThreadsBeside);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(static_cast<int>(kDeviceListBytesMax));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(unix_target(path), grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  return builder.BuildAndStart();
}

}  // namespace

struct PluginServer::State {
  std::string path;
  std::optional<FileIdentity> identity;
  PluginService service;
  std::unique_ptr<grpc::Server> server;

  State(std::string socket_path, const DevicePluginHandlers& handlers, DeviceFeed& feed,
        std::function<void()> changed)
      : path(std::move(socket_path)), service(handlers, feed, std::move(changed)) {}

  Result<void> serve(const std::string& folder);
  void end();
};

Result<void> PluginServer::State::serve(const std::string& folder) {
  const std::string birth = temporary_socket_path(folder);
  for (const std::string& name : {birth, path}) {
    if (auto fits = check_socket_path(name); !fits) return fits;
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return cannot_serve(path, errno);
  server = listen(birth, service);
  if (!server) return error(fmt::format("cannot serve on {}", in_quotes(path)));
  identity = file_identity(birth);
  if (std::rename(birth.c_str(), path.c_str()) == 0) return {};
  const int number = errno;
  identity.reset();
  return cannot_serve(path, number);
}

void PluginServer::State::end() {
  if (identity) remove_file(path, *identity);
  service.end();
  if (server) server->Shutdown(std::chrono::system_clock::now() + kPluginDrain);
}

Result<std::unique_ptr<PluginServer>> PluginServer::start(const DevicePluginOptions& options,
                                                          const DevicePluginHandlers& handlers,
                                                          DeviceFeed& feed,
                                                          std::function<void()> changed) {
  hold_grpc();
  auto state = std::make_unique<State>(options.folder + "/" + options.socket_name, handlers, feed,
                                       std::move(changed));
  std::unique_ptr<PluginServer> server(new PluginServer(std::move(state)));
  if (auto served = server->state_->serve(options.folder); !served) return served.error();
  return server;
}

PluginServer::PluginServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

PluginServer::~PluginServer() {
  state_->end();
}

PluginServer::Stream PluginServer::stream() const {
  return state_->service.stream();
}

PluginServer::Socket PluginServer::socket() const {
  const auto found = file_identity(state_->path);
  if (!found) return Socket::kGone;
  return found == state_->identity ? Socket::kOurs : Socket::kReplaced;
}

}  // namespace mgpu::plugin
