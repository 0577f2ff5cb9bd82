// The ids of the devices that a device plugin offers, and notification of changes. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"

namespace mgpu::plugin {

class DeviceFeed {
 public:
  struct Version {
    std::uint64_t number = 0;
    std::shared_ptr<const std::vector<std::string>> ids;
  };

  explicit DeviceFeed(std::vector<std::string> ids) { set(std::move(ids)); }

  // A list that equals the current one makes no new version.
  void set(std::vector<std::string> ids);
  // Waits for a version above `seen`, or until `cancelled` returns true. That is checked after
  // notify() and every kListStreamPoll.
  std::optional<Version> next(std::uint64_t seen, const std::function<bool()>& cancelled);
  void notify();

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  Version latest_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::plugin
