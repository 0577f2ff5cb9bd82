// Answers requests one at a time on an executor of their own, so that a view of thousands of nodes
// delays neither the verbs, which run on HTTP threads, nor the watches and binds, which run on the
// executor of the API server. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

#include "common/base/callback_guard.h"
#include "common/base/executor.h"

namespace mgpu::extender {

class Inspections {
 public:
  // One of kInspectionsMax slots for requests that run or wait. It is free again when its last copy
  // is gone.
  using Slot = std::shared_ptr<void>;

  // `executor` outlives this.
  explicit Inspections(Executor& executor) : executor_(executor) {}
  // Lets the one that runs end early (ending), and drops those that wait.
  ~Inspections();
  Inspections(const Inspections&) = delete;
  Inspections& operator=(const Inspections&) = delete;

  // Null if all slots are taken.
  Slot reserve();
  // Runs `inspect` after those before it. It is not run once this is destroyed.
  void run(Slot slot, std::function<void()> inspect);
  // Whether an inspection that runs is to end.
  bool ending() const { return ending_; }

 private:
  Executor& executor_;
  std::atomic<bool> ending_ = false;
  // Outlives this with the last slot.
  std::shared_ptr<std::atomic<std::size_t>> taken_ = std::make_shared<std::atomic<std::size_t>>(0);
  CallbackGuard tasks_;
};

}  // namespace mgpu::extender
