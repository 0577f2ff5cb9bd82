// kubelet's PodResources API v1 (kubernetes staging/src/k8s.io/kubelet/pkg/apis/podresources/v1/
// api.proto): which containers have which devices. Ordinary init containers are not in it, nor are
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

// The devices of one resource that one container has, joined: kubelet gives one entry per device.
struct ContainerDevices {
  PodRef pod;
  std::string container;
  DeviceSet devices;
};

// Any thread.
class PodResources {
 public:
  // `socket`: "/var/lib/kubelet/pod-resources/kubelet.sock"; connects when needed.
  explicit PodResources(std::string socket);
  ~PodResources();

  // Containers that have devices of `resource`. Calls at the same time share one answer, since
  // kubelet allows 100 calls a second in all (1.27+); what it rejects for its rate is asked again
  // until `timeout`. Errors: one sentence.
  Result<std::vector<ContainerDevices>> list(const std::string& resource,
                                             std::chrono::milliseconds timeout);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace mgpu::plugin
