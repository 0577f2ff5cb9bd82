// Counts the binds in flight, and delays filter while there are many.
//
// kube-scheduler does not wait for a bind before it filters the next pod, and its extenders' binds
// are not limited by its client's rate. Where the API server binds fewer pods a second than
// kube-scheduler schedules, binds would queue until they answer too late; kube-scheduler then tries
// their pods again, which loads the API server even more. With the delay it schedules as many pods
// as are bound.
//
//   filter ---> fewer than kBindsBeforeDelay binds ----------------------> runs
//          ---> delayed ---a bind ended, and there are fewer------------> runs
//                   |------kFilterDelayMax has passed--------------------> runs
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

#include "common/base/callback_guard.h"
#include "common/base/executor.h"

namespace mgpu::extender {

// Thread-safe, except for end(). No task runs after the destructor returns, unless it was called by
// that task.
class BindsInFlight {
 public:
  // `executor` outlives it. `on_delayed` is called for each task that is delayed, on the executor.
  BindsInFlight(Executor& executor, std::function<void()> on_delayed);
  ~BindsInFlight() { callbacks_.close(); }

  void begin() { ++count_; }
  // On the executor.
  void end();
  std::size_t count() const { return count_; }

  // Runs `filter` exactly once: at once on this thread, or after a delay on the executor.
  void when_few(Task filter);

 private:
  bool few() const;
  void delay(Task filter);
  void run_delayed();
  void run(std::uint64_t id);

  Executor& executor_;
  const std::function<void()> on_delayed_;
  std::atomic<std::size_t> count_ = 0;
  // On the executor.
  std::uint64_t next_id_ = 0;
  std::map<std::uint64_t, Task> delayed_;  // the one that came first is in front
  CallbackGuard callbacks_;                // ends first
};

}  // namespace mgpu::extender
