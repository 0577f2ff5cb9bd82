// The gRPC server of one device plugin: from its socket's appearance to its end.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "plugin/kubelet/device_feed.h"
#include "plugin/kubelet/device_plugin.h"
#include "plugin/kubelet/socket_file.h"

namespace mgpu::plugin {

// Any thread.
class PluginServer {
 public:
  // The list has been asked for: not yet, is being read, was given up by kubelet.
  enum class Stream { kNone, kOpen, kEnded };
  enum class Socket { kOurs, kGone, kReplaced };

  // Serves on folder/socket_name; what lies there is replaced at once, without a moment in which
  // nothing is there. `changed` is called on gRPC's threads when stream() changes. `feed` and
  // `handlers` must outlive the server. Errors: one sentence.
  static Result<std::unique_ptr<PluginServer>> start(const DevicePluginOptions& options,
                                                     const DevicePluginHandlers& handlers,
                                                     DeviceFeed& feed,
                                                     std::function<void()> changed);
  // Removes the socket where it is still ours, tells calls in work that they are cancelled, and
  // waits for them.
  ~PluginServer();

  Stream stream() const;
  Socket socket() const;

 private:
  struct State;
  explicit PluginServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mgpu::plugin
