#include "test/simulation/process_clock.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace mgpu::simulation {

Instant ProcessClock::State::now() const {
  return std::max(world.now(), paused_until) - behind;
}

Duration ProcessClock::State::left(Instant due) const {
  return std::max({due + behind - world.now(), frozen_until - world.now(), Duration(0)});
}

// The destructor of a task may call this executor, so tasks are destroyed while it still exists.
ProcessClock::~ProcessClock() {
  const auto timers = std::exchange(state_->timers, {});
}

Executor::TimerId ProcessClock::after(Duration delay, Task task) {
  // Prevents an overflow with Duration::max().
  constexpr Duration kLongestDelay = std::chrono::hours(24 * 365);
  const TimerId id = ++state_->last_id;
  const Instant due = state_->now() + std::clamp(delay, Duration(0), kLongestDelay);
  state_->timers.emplace(id, Timer{0, due, std::move(task)});
  run_later(state_, id);
  return id;
}

void ProcessClock::cancel(TimerId id) {
  const auto at = state_->timers.find(id);
  if (at == state_->timers.end()) return;
  state_->world.cancel(at->second.in_world);
  // Its destructor may call this executor.
  const Timer dropped = std::move(at->second);
  state_->timers.erase(at);
}

void ProcessClock::freeze(Duration time) {
  const Instant until = state_->world.now() + time;
  if (until <= state_->frozen_until) return;
  const bool again = frozen();
  state_->frozen_until = until;
  if (again) set_timers_again();
}

// Otherwise tasks that wait for the end of an earlier freeze would run after newer ones.
void ProcessClock::set_timers_again() {
  std::vector<std::pair<Instant, TimerId>> order;
  for (const auto& [id, timer] : state_->timers) order.emplace_back(timer.due, id);
  std::ranges::sort(order);
  for (const auto& [due, id] : order) {
    state_->world.cancel(state_->timers.at(id).in_world);
    run_later(state_, id);
  }
}

// Pauses may overlap.
void ProcessClock::pause(Duration time) {
  const Instant from = std::max(state_->world.now(), state_->paused_until);
  const Instant end = state_->world.now() + time;
  freeze(time);
  if (end <= from) return;
  state_->behind += end - from;
  state_->paused_until = end;
}

void ProcessClock::run_later(const std::shared_ptr<State>& state, TimerId id) {
  Timer& timer = state->timers.at(id);
  timer.in_world = state->world.after(state->left(timer.due), [weak = std::weak_ptr(state), id] {
    if (const auto open = weak.lock()) run(open, id);
  });
}

void ProcessClock::run(const std::shared_ptr<State>& state, TimerId id) {
  const auto at = state->timers.find(id);
  if (state->left(at->second.due) > Duration(0)) return run_later(state, id);
  const Task task = std::move(at->second.task);
  state->timers.erase(at);
  task();
}

}  // namespace mgpu::simulation
