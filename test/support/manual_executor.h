// The tests' Executor: one thread, a clock that moves only when told to, and seeded randomness.
//
//   ManualExecutor executor(7);
//   executor.after(5s, task);
//   executor.advance(5s);  // runs it
//
// post(), after(), cancel(), now() and random() may be called from any thread; run_ready() and
// advance() from one, and not from within a task.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <utility>

#include "common/base/executor.h"

namespace mgpu::test {

class ManualExecutor final : public Executor {
 public:
  explicit ManualExecutor(std::uint64_t seed = 1);
  ~ManualExecutor() override;

  Instant now() const override;
  void post(Task task) override;
  TimerId after(Duration delay, Task task) override;
  void cancel(TimerId id) override;
  double random() override;

  // Runs everything that is due now, and what that posts, until nothing is. Returns how many tasks
  // ran. REQUIRES: it ends; tasks that post themselves for ever are a failed check.
  std::size_t run_ready();
  // Moves the clock on by `step`, stopping at each timer on the way, earliest first and equal ones
  // in the order of their after(). What is ready already runs before the clock moves. Returns how
  // many tasks ran.
  std::size_t advance(Duration step);
  // Advances just to the next timer; false when there is none.
  bool advance_to_next_timer();

  // Posted tasks and timers that have not run.
  std::size_t pending() const;
  // From now to the earliest timer; zero when it is due already.
  std::optional<Duration> until_next_timer() const;

 private:
  using TimerKey = std::pair<Instant, TimerId>;

  std::optional<Task> next_due();
  std::optional<Instant> next_timer() const;
  void move_to(Instant instant);

  mutable std::mutex mutex_;
  Instant now_{};
  TimerId last_id_ = 0;
  std::deque<Task> posted_;
  std::map<TimerKey, Task> timers_;
  std::map<TimerId, Instant> due_;
  std::mt19937_64 engine_;
  bool running_ = false;
};

}  // namespace mgpu::test
