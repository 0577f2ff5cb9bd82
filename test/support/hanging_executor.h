// An executor whose tasks stop while a handler hangs, as a thread does that waits for a lock. Its
// clock runs on. Tasks that are due meanwhile run afterwards, in their order.
#pragma once

#include <utility>
#include <vector>

#include "common/base/executor.h"

namespace mgpu::test {

class HangingExecutor final : public Executor {
 public:
  // `executor` outlives it, and it outlives the tasks.
  explicit HangingExecutor(Executor& executor) : executor_(executor) {}

  Instant now() const override { return executor_.now(); }
  void post(Task task) override { executor_.post(held(std::move(task))); }
  TimerId after(Duration delay, Task task) override {
    return executor_.after(delay, held(std::move(task)));
  }
  void cancel(TimerId id) override { executor_.cancel(id); }
  double random() override { return executor_.random(); }

  void hang() { hangs_ = true; }
  void go_on() {
    hangs_ = false;
    for (Task& task : std::exchange(waiting_, {})) executor_.post(std::move(task));
  }

 private:
  Task held(Task task) {
    return [this, task = std::move(task)] { hangs_ ? waiting_.push_back(task) : task(); };
  }

  Executor& executor_;
  bool hangs_ = false;
  std::vector<Task> waiting_;
};

}  // namespace mgpu::test
