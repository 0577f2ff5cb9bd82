// Counts the binds in flight, and delays filter while there are many.
//
// kube-scheduler does not wait for a bind before it filters the next pod, and its extenders' binds
// are not limited by its client's rate. Where the API server binds fewer pods a second than
// kube-scheduler schedules, binds would queue until they answer too late; kube-scheduler then tries
// their pods again, which loads the API server even more. With the delay it schedules as many pods
// as are bound.
//
// There are many if they are kBindsBeforeDelay or more, and would take longer than kBindsDelayed at
// the rate of the last ones: an API server that binds many pods a second does so with many in
// flight.
//
//   filter ---> few binds -----------------------------------------------> runs
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
  // On the executor. `bound`: whether the pod was bound.
  void end(bool bound);
  std::size_t count() const { return count_; }

  bool few() const { return count_ < allowed_; }
  // Runs `filter` exactly once: at once on this thread, or after a delay on the executor.
  void when_few(Task filter);

 private:
  void note_end(bool bound);
  void delay(Task filter);
  void run_delayed();
  void run(std::uint64_t id);

  Executor& executor_;
  const std::function<void()> on_delayed_;
  std::atomic<std::size_t> count_ = 0;
  std::atomic<std::size_t> allowed_;  // from so many on, there are many
  // On the executor.
  Instant period_begin_;
  std::size_t bound_ = 0;  // pods in the period
  std::uint64_t next_id_ = 0;
  std::map<std::uint64_t, Task> delayed_;  // the one that came first is in front
  CallbackGuard callbacks_;                // ends first
};

}  // namespace mgpu::extender
