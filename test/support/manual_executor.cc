#include "test/support/manual_executor.h"

#include <algorithm>

#include "common/base/check.h"

namespace mgpu::test {
namespace {

constexpr std::size_t kTasksPerRunMax = 10'000'000;
// Not zero, so that an Instant that has not been set is noticed.
constexpr Instant kStart{std::chrono::hours(1000)};

}  // namespace

ManualExecutor::ManualExecutor(std::uint64_t seed) : now_(kStart), engine_(seed) {}

// The destructor of a task may call this executor, so tasks are destroyed while it still exists.
ManualExecutor::~ManualExecutor() {
  while (pending() > 0) {
    std::deque<Task> posted;
    std::map<TimerKey, Task> timers;
    const std::lock_guard lock(mutex_);
    posted.swap(posted_);
    timers.swap(timers_);
    due_.clear();
  }
}

Instant ManualExecutor::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

void ManualExecutor::post(Task task) {
  const std::lock_guard lock(mutex_);
  posted_.push_back(std::move(task));
}

Executor::TimerId ManualExecutor::after(Duration delay, Task task) {
  const std::lock_guard lock(mutex_);
  // Prevents an overflow with Duration::max().
  constexpr Duration kLongestDelay = std::chrono::hours(24 * 365 * 100);
  const Instant due = now_ + std::clamp(delay, Duration::zero(), kLongestDelay);
  const TimerId id = ++last_id_;
  timers_.emplace(TimerKey(due, id), std::move(task));
  due_.emplace(id, due);
  return id;
}

void ManualExecutor::cancel(TimerId id) {
  Task dropped;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  const auto due = due_.find(id);
  if (due == due_.end()) return;
  const auto timer = timers_.find(TimerKey(due->second, id));
  dropped = std::move(timer->second);
  timers_.erase(timer);
  due_.erase(due);
}

double ManualExecutor::random() {
  const std::lock_guard lock(mutex_);
  return static_cast<double>(engine_() >> 11) * 0x1p-53;
}

std::size_t ManualExecutor::run_ready() {
  MGPU_CHECK(!running_, "run_ready() or advance() called from within a task");
  running_ = true;
  std::size_t count = 0;
  while (auto task = next_due()) {
    MGPU_CHECK(++count < kTasksPerRunMax, "tasks post each other without end");
    (*task)();
  }
  running_ = false;
  return count;
}

std::size_t ManualExecutor::advance(Duration step) {
  MGPU_CHECK(step >= Duration::zero(), "the clock never goes back");
  const Instant end = now() + step;
  std::size_t count = run_ready();
  for (auto next = next_timer(); next && *next <= end; next = next_timer()) {
    move_to(*next);
    count += run_ready();
  }
  move_to(end);
  return count;
}

bool ManualExecutor::advance_to_next_timer() {
  const auto wait = until_next_timer();
  if (!wait) return false;
  advance(*wait);
  return true;
}

std::size_t ManualExecutor::pending() const {
  const std::lock_guard lock(mutex_);
  return posted_.size() + timers_.size();
}

std::optional<Duration> ManualExecutor::until_next_timer() const {
  const auto next = next_timer();
  if (!next) return std::nullopt;
  return std::max(Duration::zero(), *next - now());
}

std::optional<Task> ManualExecutor::next_due() {
  const std::lock_guard lock(mutex_);
  if (!posted_.empty()) {
    Task task = std::move(posted_.front());
    posted_.pop_front();
    return task;
  }
  if (timers_.empty() || timers_.begin()->first.first > now_) return std::nullopt;
  auto timer = timers_.extract(timers_.begin());
  due_.erase(timer.key().second);
  return std::move(timer.mapped());
}

std::optional<Instant> ManualExecutor::next_timer() const {
  const std::lock_guard lock(mutex_);
  if (timers_.empty()) return std::nullopt;
  return timers_.begin()->first.first;
}

void ManualExecutor::move_to(Instant instant) {
  const std::lock_guard lock(mutex_);
  now_ = std::max(now_, instant);
}

}  // namespace mgpu::test
