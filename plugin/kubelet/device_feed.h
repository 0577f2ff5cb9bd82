// The list of devices, for whoever sends it to kubelet. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/mutex.h"
#include "plugin/kubelet/device_plugin.h"
#include "plugin/kubelet/limits.h"

namespace mgpu::plugin {

using DeviceList = std::shared_ptr<const std::vector<Device>>;

class DeviceFeed {
 public:
  struct Version {
    std::uint64_t number = 0;
    DeviceList devices;
  };

  explicit DeviceFeed(std::vector<Device> devices);

  // An equal list is no new version.
  void set(std::vector<Device> devices);
  // Waits for a version above `seen`; none as soon as `ended` is true, which is looked at after
  // wake() and every kListStreamPoll.
  std::optional<Version> next(std::uint64_t seen, const std::function<bool()>& ended);
  void wake();

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  Version latest_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::plugin
