// Which of the device plugins of a node serves it: the one that was started last. In an upgrade
// with an overlap, or by mistake, there are two for a while; the earlier one must not write what
// the later one does not know.
#pragma once

#include <string>
#include <utility>

#include "common/base/files.h"
#include "common/base/mutex.h"
#include "common/base/result.h"

namespace mgpu::plugin {

// Any thread.
class Incumbent {
 public:
  // All processes of a node have the same `path`.
  explicit Incumbent(std::string path) : path_(std::move(path)) {}

  // Replaces any other process. Errors: the file cannot be written; then none is replaced, and
  // replaced() is false.
  Result<void> become();
  // Another process has replaced this one since.
  bool replaced() const;
  // The process that replaced this one has ended.
  bool successor_ended() const;

 private:
  const std::string path_;
  mutable Mutex mutex_;
  UniqueFd file_ MGPU_GUARDED_BY(mutex_);  // locked until this process ends, in whatever way
};

}  // namespace mgpu::plugin
