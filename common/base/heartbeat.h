// Tells whether an executor still runs its tasks: a handler that never returns, or that waits for a
// lock or a write for ever, stops all of them.
#pragma once

#include <atomic>

#include "common/base/callback_guard.h"
#include "common/base/executor.h"

namespace mgpu {

class Heartbeat {
 public:
  // Starts to run a task in each kHeartbeatInterval. `executor` outlives it.
  explicit Heartbeat(Executor& executor);
  ~Heartbeat();

  // Returns for how long no task has run. After a process or its machine was stopped this is the
  // time of the stop, until the executor runs its next task. Any thread.
  Duration silence() const { return executor_.now() - last_.load(); }
  // Whether tasks are certainly missing: more than kHeartbeatMissed have passed. Any thread.
  bool is_missed() const;

 private:
  void beat();

  Executor& executor_;
  std::atomic<Instant> last_;
  std::atomic<Executor::TimerId> timer_;
  CallbackGuard callbacks_;  // ends first
};

}  // namespace mgpu
