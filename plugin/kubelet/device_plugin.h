// kubelet's device plugin API v1beta1 (kubernetes staging/src/k8s.io/kubelet/pkg/apis/deviceplugin/
// v1beta1/api.proto) for one resource: a gRPC server on its own socket beside kubelet.sock, and its
// registration with kubelet.
//
//   Waiting (no kubelet.sock) --it exists--> Serving --Register--> Registered
//      ^                                                                |
//      +--- kubelet.sock recreated, own socket removed, ListAndWatch ended
//
// gRPC stays inside this folder: callers see values only.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/result.h"
#include "plugin/allocation/edits.h"
#include "plugin/kubelet/device_feed.h"
#include "plugin/kubelet/limits.h"
#include "plugin/kubelet/socket_file.h"

namespace mgpu::plugin {

// Each may be called on several threads at once.
struct DevicePluginHandlers {
  // Returns without waiting for the network.
  std::function<Result<AllocateResponse>(const std::vector<std::string>& ids)> allocate;
  // Returns within 30 s, kubelet's limit for PreStartContainer (devicemanager/endpoint.go).
  // `cancelled` returns true once kubelet no longer waits. If the handler is empty,
  // pre_start_required is false.
  std::function<Result<void>(const std::vector<std::string>& ids,
                             const std::function<bool()>& cancelled)>
      pre_start;
  // Asked before each registration, since kubelet calls the process that registered last: the
  // sentence why this one must not register. May be empty.
  std::function<Result<void>()> may_register{};
  // Called when the plugin becomes registered, and with one sentence when it is not or no longer
  // registered. May be empty.
  std::function<void(const Result<void>&)> on_registration;
};

struct DevicePluginOptions {
  std::string resource;       // "vke.volcengine.com/mgpu-core"
  std::string folder;         // "/var/lib/kubelet/device-plugins"
  std::string socket_prefix;  // "vke.volcengine.com-mgpu-core"; see PluginServer::start()
};

class PluginServer;

class DevicePlugin {
 public:
  // Starts to wait for kubelet.
  DevicePlugin(DevicePluginOptions options, std::vector<std::string> device_ids,
               DevicePluginHandlers handlers);
  // Stops the server. Calls in progress are cancelled and waited for.
  ~DevicePlugin();

  // Another process is registered for the resource. At its end, this one leaves kubelet to it.
  void leave_to_successor() { leaves_ = true; }
  // Replaces the list of devices, which are all healthy. It is sent to kubelet if it has changed.
  // Any thread.
  void set_devices(std::vector<std::string> ids) { feed_.set(std::move(ids)); }
  // kubelet has registered the plugin and reads the list. Any thread.
  bool registered() const { return registered_; }

 private:
  using Clock = std::chrono::steady_clock;

  // The thread checks the sockets and the stream, and takes one step at a time.
  void run();
  void step();
  void check_kubelet_socket();
  void check_stream();
  void serve_and_register();
  void register_again_alone();
  void unregister_quietly();
  std::optional<Result<void>> register_with_kubelet();
  void stop_server();
  void end_servers();
  void report(const Result<void>& outcome);
  void notify();
  bool stopping();

  const DevicePluginOptions options_;
  const DevicePluginHandlers handlers_;
  const std::string kubelet_socket_;
  DeviceFeed feed_;
  std::atomic<bool> registered_ = false;
  std::atomic<bool> leaves_ = false;

  Mutex mutex_;
  ConditionVariable changed_;
  bool notified_ MGPU_GUARDED_BY(mutex_) = false;
  bool stopping_ MGPU_GUARDED_BY(mutex_) = false;

  // Used on the thread only.
  std::optional<FileIdentity> kubelet_;
  std::unique_ptr<PluginServer> server_;
  std::unique_ptr<PluginServer> first_server_;  // see register_again_alone()
  bool has_predecessor_ = false;
  std::optional<Clock::time_point> accepted_;  // when kubelet accepted the registration
  Clock::time_point next_attempt_;
  std::chrono::milliseconds retry_delay_ = kRegisterRetryMin;
  std::optional<std::string> reported_;  // last problem; empty: registered

  std::thread thread_;
};

}  // namespace mgpu::plugin
