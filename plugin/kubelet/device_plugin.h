// kubelet's device plugin API v1beta1 (kubernetes staging/src/k8s.io/kubelet/pkg/apis/deviceplugin/
// v1beta1/api.proto) for one resource: a gRPC server on a socket of its own beside kubelet.sock,
// and the registration that keeps kubelet aware of it.
//
//   Waiting (no kubelet.sock) --it is there--> Serving --Register--> Registered
//      ^                                                                |
//      +--- kubelet.sock made anew, our socket gone, ListAndWatch cut --+
//
// Home of gRPC, like the rest of this folder: callers see values only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "plugin/allocation/edits.h"
#include "plugin/containers/limits.h"

namespace mgpu::plugin {

struct Device {
  std::string id;
  bool healthy = true;
  bool operator==(const Device&) const = default;
};

// Each may be called on many threads at once.
struct DevicePluginHandlers {
  // Answers at once, from memory and local disk.
  std::function<Result<AllocateResponse>(const std::vector<std::string>& ids)> allocate;
  // Blocks at most kPreStartBudget. Empty: pre_start_required is false. `cancelled` tells
  // that kubelet no longer waits.
  std::function<Result<void>(const std::vector<std::string>& ids,
                             const std::function<bool()>& cancelled)>
      pre_start;
  // Registered, or one sentence why not (again); for log and readiness. May be empty.
  std::function<void(const Result<void>&)> on_registration;
};

struct DevicePluginOptions {
  std::string resource;     // "vke.volcengine.com/mgpu-core"
  std::string folder;       // "/var/lib/kubelet/device-plugins"
  std::string socket_name;  // "vke.volcengine.com-mgpu-core.sock"
};

class DevicePlugin {
 public:
  // Begins to wait for kubelet. An old socket of the same name is replaced.
  DevicePlugin(DevicePluginOptions options, std::vector<Device> devices,
               DevicePluginHandlers handlers);
  // Ends the server; calls in work are cancelled and waited for.
  ~DevicePlugin();

  // The whole list, sent to kubelet when it differs from the last one. Any thread.
  void set_devices(std::vector<Device> devices);
  // kubelet has registered us and is reading the list. Any thread.
  bool registered() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mgpu::plugin
