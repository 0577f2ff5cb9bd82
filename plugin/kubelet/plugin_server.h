// The gRPC server of one device plugin, from the creation of its socket to its removal.
#pragma once

#include <grpcpp/server.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "plugin/kubelet/plugin_service.h"
#include "plugin/kubelet/socket_file.h"

namespace mgpu::plugin {

// Any thread.
class PluginServer {
 public:
  using Stream = PluginService::Stream;
  // The file at the path of the socket: the one of this server, none, or another one.
  enum class Socket { kOwn, kRemoved, kReplaced };

  // Serves on folder/socket_name. An existing file is replaced atomically. `changed` is called on
  // gRPC's threads when stream() changes. `feed` and `handlers` outlive the server.
  static Result<std::unique_ptr<PluginServer>> start(const DevicePluginOptions& options,
                                                     const DevicePluginHandlers& handlers,
                                                     DeviceFeed& feed,
                                                     std::function<void()> changed);
  // Removes the socket unless it has been replaced, cancels calls in progress and waits for them.
  ~PluginServer();

  Stream stream() const { return service_.stream(); }
  Socket socket() const;

 private:
  PluginServer(std::string path, const DevicePluginHandlers& handlers, DeviceFeed& feed,
               std::function<void()> changed);
  Result<void> serve(const std::string& folder);

  const std::string path_;
  std::optional<FileIdentity> identity_;
  PluginService service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace mgpu::plugin
