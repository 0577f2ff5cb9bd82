#include "common/base/asio_executor.h"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "common/base/mutex.h"

namespace mgpu {
namespace {

namespace asio = boost::asio;

// Keeps Duration::max() from wrapping in the timer's nanoseconds.
constexpr Duration kLongestDelay = std::chrono::hours(24 * 365 * 100);

}  // namespace

// Tasks are kept here, not in Asio's handlers, so that cancel() and the end destroy them while
// everything they may call is still whole.
struct AsioExecutor::State {
  struct Timer {
    asio::steady_timer alarm;
    Task task;
  };

  void run_posted();
  void run_timer(TimerId id);
  void drop_tasks();

  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};

  Mutex mutex;
  std::deque<Task> posted MGPU_GUARDED_BY(mutex);
  std::map<TimerId, Timer> timers MGPU_GUARDED_BY(mutex);
  TimerId last_id MGPU_GUARDED_BY(mutex) = 0;
  bool stopped MGPU_GUARDED_BY(mutex) = false;
  std::mt19937_64 engine MGPU_GUARDED_BY(mutex){std::random_device()()};

  Mutex join_mutex;
  std::thread thread;  // joined under `join_mutex`
};

void AsioExecutor::State::run_posted() {
  Task task;
  {
    const MutexLock lock(mutex);
    if (posted.empty()) return;
    task = std::move(posted.front());
    posted.pop_front();
  }
  task();
}

void AsioExecutor::State::run_timer(TimerId id) {
  std::map<TimerId, Timer>::node_type timer;
  {
    const MutexLock lock(mutex);
    timer = timers.extract(id);
  }
  if (!timer.empty()) timer.mapped().task();
}

// What a task owns may post or cancel when it is destroyed, hence the loop and no lock held.
void AsioExecutor::State::drop_tasks() {
  while (true) {
    std::deque<Task> old_posted;
    std::map<TimerId, Timer> old_timers;
    const MutexLock lock(mutex);
    if (posted.empty() && timers.empty()) return;
    old_posted.swap(posted);
    old_timers.swap(timers);
  }
}

AsioExecutor::AsioExecutor() : state_(std::make_shared<State>()) {
  // noexcept: an exception that leaves a task is a mistake, and must end the process.
  state_->thread = std::thread([state = state_.get()]() noexcept { state->context.run(); });
}

AsioExecutor::~AsioExecutor() {
  MGPU_CHECK(std::this_thread::get_id() != state_->thread.get_id(),
             "an executor cannot end from within its own task");
  stop();
  state_->drop_tasks();
}

Instant AsioExecutor::now() const {
  return std::chrono::floor<Duration>(std::chrono::steady_clock::now());
}

void AsioExecutor::post(Task task) {
  const MutexLock lock(state_->mutex);
  if (state_->stopped) return;
  state_->posted.push_back(std::move(task));
  asio::post(state_->context, [state = state_.get()] { state->run_posted(); });
}

Executor::TimerId AsioExecutor::after(Duration delay, Task task) {
  const MutexLock lock(state_->mutex);
  const TimerId id = ++state_->last_id;
  if (state_->stopped) return id;
  asio::steady_timer alarm(state_->context, std::clamp(delay, Duration::zero(), kLongestDelay));
  alarm.async_wait([state = state_.get(), id](const boost::system::error_code& failure) {
    if (!failure) state->run_timer(id);
  });
  state_->timers.emplace(id, State::Timer{std::move(alarm), std::move(task)});
  return id;
}

void AsioExecutor::cancel(TimerId id) {
  std::map<TimerId, State::Timer>::node_type timer;  // destroyed after the lock is released
  const MutexLock lock(state_->mutex);
  timer = state_->timers.extract(id);
}

double AsioExecutor::random() {
  const MutexLock lock(state_->mutex);
  return static_cast<double>(state_->engine() >> 11) * 0x1p-53;
}

void AsioExecutor::stop() {
  {
    const MutexLock lock(state_->mutex);
    state_->stopped = true;
  }
  state_->context.stop();
  if (std::this_thread::get_id() == state_->thread.get_id()) return;
  const MutexLock lock(state_->join_mutex);
  if (state_->thread.joinable()) state_->thread.join();
}

boost::asio::io_context& AsioExecutor::context() {
  return state_->context;
}

}  // namespace mgpu
