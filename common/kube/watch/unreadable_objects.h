// Objects of a collection that could not be read: how often, and whether a message about one is
// new.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <string>

#include "common/kube/limits.h"

namespace mgpu::kube {

class UnreadableObjects {
 public:
  // Counts one. True if this sentence is to be logged, because none of the last
  // kUnreadableRemembered different ones was equal. One thread at a time.
  bool note(const std::string& why) {
    ++count_;
    if (logged_.size() >= kUnreadableRemembered) logged_.clear();
    return logged_.insert(why).second;
  }
  // Any thread.
  std::uint64_t count() const { return count_; }

 private:
  std::atomic<std::uint64_t> count_ = 0;
  std::set<std::string> logged_;
};

}  // namespace mgpu::kube
