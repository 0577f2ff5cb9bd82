// The gRPC server of one device plugin, from the creation of its socket to its removal.
#pragma once

#include <grpcpp/server.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "plugin/kubelet/plugin_service.h"
#include "plugin/kubelet/socket_file.h"

namespace mgpu::plugin {

// How many sockets with this prefix have a process that serves. Sockets of killed processes are
// removed.
std::size_t live_sockets(const std::string& folder, const std::string& prefix);

// Any thread.
class PluginServer {
 public:
  using Stream = PluginService::Stream;

  // Serves on a socket that no server has had, as kubelet asks (pkg/kubelet/pluginmanager/
  // pluginwatcher/README.md): kubelet 1.37 knows plugins by their path, and refuses a path whose
  // last stream has not ended yet, until kubelet restarts.
  // `changed` is called on gRPC's threads when stream() changes. `feed` and `handlers` outlive the
  // server.
  static Result<std::unique_ptr<PluginServer>> start(const DevicePluginOptions& options,
                                                     const DevicePluginHandlers& handlers,
                                                     DeviceFeed& feed,
                                                     std::function<void()> changed);
  // Calls stop(), waits until kubelet has seen the end of the stream, and cancels the other calls.
  ~PluginServer();
  // Removes the socket and ends the stream. If kubelet has two servers of this process, both
  // streams end before a server does: from 1.37 on, kubelet goes on with any of the other servers
  // when the stream of one ends (devicemanager/manager.go, PluginDisconnected), and a pod whose
  // Allocate meets a server without a socket fails permanently.
  void stop();

  Stream stream() const { return service_.stream(); }
  // The name of the socket in its folder.
  const std::string& endpoint() const { return endpoint_; }
  // Another name of the socket, by which this server cannot be registered. Stream and calls go on.
  std::string refusing_endpoint();
  // Returns whether the socket still exists.
  bool has_socket() const { return file_identity(path_).has_value(); }

 private:
  PluginServer(const DevicePluginOptions& options, const DevicePluginHandlers& handlers,
               DeviceFeed& feed, std::function<void()> changed);
  Result<void> serve(const std::string& folder);

  const std::string endpoint_;
  const std::string path_;
  const std::string refusing_path_;
  PluginService service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace mgpu::plugin
