// kubelet's PodResources API v1 (kubernetes staging/src/k8s.io/kubelet/pkg/apis/podresources/v1/
// api.proto): the devices of each container. It lists neither init containers (except sidecars) nor
// pod UIDs.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "plugin/allocation/device_set.h"

namespace mgpu::plugin {

// All devices of one resource that a container has. kubelet lists them in one entry per device.
struct ContainerDevices {
  PodRef pod;
  std::string container;
  DeviceSet devices;
};

// Any thread.
class PodResources {
 public:
  // `socket` such as "/var/lib/kubelet/pod-resources/kubelet.sock". Connects when needed.
  explicit PodResources(std::string socket);
  ~PodResources();

  // Returns the containers that have devices of `resource`. Concurrent calls share one response,
  // since kubelet allows 100 calls a second from all clients together (1.27+), and there is one in
  // kPodResourcesPeriod at most. A call that kubelet rejects because of this limit is repeated
  // until `timeout`.
  Result<std::vector<ContainerDevices>> list(const std::string& resource,
                                             std::chrono::milliseconds timeout);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace mgpu::plugin
