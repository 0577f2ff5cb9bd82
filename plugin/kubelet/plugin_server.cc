#include "plugin/kubelet/plugin_server.h"

#include <fmt/format.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

#include "common/base/text.h"
#include "plugin/allocation/limits.h"
#include "plugin/kubelet/limits.h"
#include "plugin/kubelet/unix_channel.h"

namespace mgpu::plugin {
namespace {

Error cannot_serve(const std::string& path, int number) {
  return error(fmt::format("cannot serve on {}: {}", in_quotes(path), std::strerror(number)));
}

std::unique_ptr<grpc::Server> listen(const std::string& path, PluginService& service) {
  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota("device plugin");
  quota.SetMaxThreads(kPreStartCallsMax + kOtherCallsMax);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(static_cast<int>(kDeviceListBytesMax));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(unix_target(path), grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  return builder.BuildAndStart();
}

}  // namespace

Result<std::unique_ptr<PluginServer>> PluginServer::start(const DevicePluginOptions& options,
                                                          const DevicePluginHandlers& handlers,
                                                          DeviceFeed& feed,
                                                          std::function<void()> changed) {
  initialize_grpc();
  std::unique_ptr<PluginServer> server(new PluginServer(options.folder + "/" + options.socket_name,
                                                        handlers, feed, std::move(changed)));
  if (auto served = server->serve(options.folder); !served) return served.error();
  return server;
}

PluginServer::PluginServer(std::string path, const DevicePluginHandlers& handlers, DeviceFeed& feed,
                           std::function<void()> changed)
    : path_(std::move(path)), service_(handlers, feed, std::move(changed)) {}

// gRPC removes the file that it created when the server stops, and by then the name may belong to
// another process. Hence it creates a file of another name, which is then renamed.
Result<void> PluginServer::serve(const std::string& folder) {
  const std::string temporary = fmt::format("{}/.mgpu-{:08x}", folder, std::random_device()());
  for (const std::string& name : {temporary, path_}) {
    if (auto fits = check_socket_path(name); !fits) return fits;
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return cannot_serve(path_, errno);
  server_ = listen(temporary, service_);
  if (!server_) return error(fmt::format("cannot serve on {}", in_quotes(path_)));
  const auto created = file_identity(temporary);
  if (std::rename(temporary.c_str(), path_.c_str()) != 0) return cannot_serve(path_, errno);
  identity_ = created;
  return {};
}

PluginServer::~PluginServer() {
  if (identity_) remove_file(path_, *identity_);
  service_.stop();
  if (server_) server_->Shutdown(std::chrono::system_clock::now() + kPluginShutdownTimeout);
}

PluginServer::Socket PluginServer::socket() const {
  const auto found = file_identity(path_);
  if (!found) return Socket::kRemoved;
  return found == identity_ ? Socket::kOwn : Socket::kReplaced;
}

}  // namespace mgpu::plugin
