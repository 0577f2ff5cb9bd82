#include "plugin/kubelet/device_feed.h"

#include "plugin/kubelet/limits.h"

namespace mgpu::plugin {

void DeviceFeed::set(std::vector<std::string> ids) {
  const MutexLock lock(mutex_);
  if (latest_.ids && *latest_.ids == ids) return;
  latest_.ids = std::make_shared<const std::vector<std::string>>(std::move(ids));
  ++latest_.number;
  changed_.notify_all();
}

std::optional<DeviceFeed::Version> DeviceFeed::next(std::uint64_t seen,
                                                    const std::function<bool()>& cancelled) {
  MutexLock lock(mutex_);
  while (!cancelled()) {
    if (latest_.number > seen) return latest_;
    changed_.wait_for(lock, kListStreamPoll);
  }
  return std::nullopt;
}

void DeviceFeed::notify() {
  // The lock is taken so that no notification is lost between a check of `cancelled` and the wait.
  const MutexLock lock(mutex_);
  changed_.notify_all();
}

}  // namespace mgpu::plugin
