// The executor of one process: it can freeze, as a process does that gets no CPU time, or pause, as
// a virtual machine does, whose monotonic clock then stands still. Tasks that become due meanwhile
// run afterwards, in their order. Tasks of a process that has ended never run.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "common/base/executor.h"

namespace mgpu::simulation {

class ProcessClock final : public Executor {
 public:
  // `world` outlives it.
  explicit ProcessClock(Executor& world) : state_(std::make_shared<State>(world)) {}
  ~ProcessClock() override;

  Instant now() const override { return state_->now(); }
  void post(Task task) override { after(Duration(0), std::move(task)); }
  TimerId after(Duration delay, Task task) override;
  void cancel(TimerId id) override;
  double random() override { return state_->world.random(); }

  // No task runs for this time. The clock runs on, so that timers are overdue afterwards.
  void freeze(Duration time);
  // The same, and the clock stands still: afterwards it is behind the others for ever.
  void pause(Duration time);
  bool frozen() const { return state_->frozen_until > state_->world.now(); }

 private:
  struct Timer {
    TimerId in_world;
    Instant due;
    Task task;
  };
  struct State {
    explicit State(Executor& executor) : world(executor) {}

    Instant now() const;
    // Until a task that is due then may run.
    Duration left(Instant due) const;

    Executor& world;
    std::map<TimerId, Timer> timers;
    TimerId last_id = 0;
    Instant frozen_until{};  // times of the world
    Instant paused_until{};
    Duration behind{0};  // after the pause
  };

  void set_timers_again();
  static void run_later(const std::shared_ptr<State>& state, TimerId id);
  static void run(const std::shared_ptr<State>& state, TimerId id);

  std::shared_ptr<State> state_;
};

}  // namespace mgpu::simulation
