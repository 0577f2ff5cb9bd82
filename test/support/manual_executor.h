// The Executor of the tests: one thread, a manual clock and seeded randomness.
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

  // Runs the tasks that are due, including those that they post. Returns the number of tasks.
  // REQUIRES: tasks do not post other tasks forever.
  std::size_t run_ready();
  // Runs the tasks that are due, then advances the clock by `step` and runs each timer at its time.
  // Timers with equal times run in the order of after(). Returns the number of tasks.
  std::size_t advance(Duration step);
  // Advances to the next timer; false without one.
  bool advance_to_next_timer();

  // The number of posted tasks and timers that have not run.
  std::size_t pending() const;
  // The time until the next timer; zero if it is already due.
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
