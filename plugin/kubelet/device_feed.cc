#include "plugin/kubelet/device_feed.h"

#include <utility>

#include "common/base/mutex.h"
#include "plugin/kubelet/limits.h"

namespace mgpu::plugin {

DeviceFeed::DeviceFeed(std::vector<Device> devices) {
  set(std::move(devices));
}

void DeviceFeed::set(std::vector<Device> devices) {
  const MutexLock lock(mutex_);
  if (latest_.devices && *latest_.devices == devices) return;
  latest_.devices = std::make_shared<const std::vector<Device>>(std::move(devices));
  ++latest_.number;
  changed_.notify_all();
}

std::optional<DeviceFeed::Version> DeviceFeed::next(std::uint64_t seen,
                                                    const std::function<bool()>& ended) {
  MutexLock lock(mutex_);
  while (!ended()) {
    if (latest_.number > seen) return latest_;
    changed_.wait_for(lock, kListStreamPoll);
  }
  return std::nullopt;
}

void DeviceFeed::wake() {
  // Under the lock: between a look at `ended` and the wait that follows no wake is lost.
  const MutexLock lock(mutex_);
  changed_.notify_all();
}

}  // namespace mgpu::plugin
