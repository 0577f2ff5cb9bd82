#include "plugin/kubelet/plugin_server.h"

#include <fmt/format.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string_view>
#include <utility>

#include "common/base/files.h"
#include "common/base/text.h"
#include "plugin/allocation/limits.h"
#include "plugin/kubelet/limits.h"
#include "plugin/kubelet/unix_channel.h"

namespace mgpu::plugin {
namespace {

constexpr std::string_view kSocket = ".sock";
constexpr char kRefusing[] = ".end";

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

// A server that starts at this moment does not listen yet. It loses its file and starts again.
std::size_t live_sockets(const std::string& folder, const std::string& prefix) {
  std::size_t live = 0;
  for (const std::string& name : names_in(folder)) {
    if (!name.starts_with(prefix) || !name.ends_with(kSocket)) continue;
    const std::string path = folder + "/" + name;
    if (has_listener(path)) {
      ++live;
    } else {
      ::unlink(path.c_str());
    }
  }
  return live;
}

Result<std::unique_ptr<PluginServer>> PluginServer::start(const DevicePluginOptions& options,
                                                          const DevicePluginHandlers& handlers,
                                                          DeviceFeed& feed,
                                                          std::function<void()> changed) {
  initialize_grpc();
  std::unique_ptr<PluginServer> server(
      new PluginServer(options, handlers, feed, std::move(changed)));
  if (auto served = server->serve(options.folder); !served) return served.error();
  return server;
}

PluginServer::PluginServer(const DevicePluginOptions& options, const DevicePluginHandlers& handlers,
                           DeviceFeed& feed, std::function<void()> changed)
    : endpoint_(fmt::format("{}-{:08x}{}", options.socket_prefix, std::random_device()(), kSocket)),
      path_(options.folder + "/" + endpoint_),
      refusing_path_(path_ + kRefusing),
      service_(handlers, feed, std::move(changed)) {}

Result<void> PluginServer::serve(const std::string& folder) {
  if (auto fits = check_socket_path(path_); !fits) return fits;
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return cannot_serve(path_, errno);
  server_ = listen(path_, service_);
  if (!server_) return error(fmt::format("cannot serve on {}", in_quotes(path_)));
  return {};
}

std::string PluginServer::refusing_endpoint() {
  service_.refuse_registration();
  static_cast<void>(::link(path_.c_str(), refusing_path_.c_str()));
  return endpoint_ + kRefusing;
}

void PluginServer::stop() {
  // First, so that kubelet does not connect to a server that ends.
  ::unlink(path_.c_str());
  ::unlink(refusing_path_.c_str());
  service_.stop();
}

PluginServer::~PluginServer() {
  stop();
  service_.wait_for_end();
  if (server_) server_->Shutdown(std::chrono::system_clock::now() + kPluginShutdownTimeout);
}

}  // namespace mgpu::plugin
