#include "common/base/asio_executor.h"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
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

// Prevents an overflow of the timer's nanoseconds.
constexpr Duration kLongestDelay = std::chrono::hours(24 * 365 * 100);

}  // namespace

// Tasks are kept here and not in Asio's handlers, so that cancel() and the destructor destroy them
// while everything that they may call still exists.
struct AsioExecutor::State {
  struct Pending {
    Task task;
    std::optional<asio::steady_timer> timer;  // of a delayed task
  };

  void run(TimerId id);

  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};

  Mutex mutex;
  std::map<TimerId, Pending> pending MGPU_GUARDED_BY(mutex);
  TimerId last_id MGPU_GUARDED_BY(mutex) = 0;
  bool stopped MGPU_GUARDED_BY(mutex) = false;
  std::mt19937_64 engine MGPU_GUARDED_BY(mutex){std::random_device()()};

  Mutex join_mutex;
  std::thread thread;  // joined under `join_mutex`
};

void AsioExecutor::State::run(TimerId id) {
  std::map<TimerId, Pending>::node_type found;
  {
    const MutexLock lock(mutex);
    found = pending.extract(id);
  }
  if (!found.empty()) found.mapped().task();
}

AsioExecutor::AsioExecutor() : state_(std::make_unique<State>()) {
  // An exception that leaves a task is a bug; noexcept makes it terminate the process.
  state_->thread = std::thread([state = state_.get()]() noexcept { state->context.run(); });
}

AsioExecutor::~AsioExecutor() {
  MGPU_CHECK(std::this_thread::get_id() != state_->thread.get_id(),
             "an executor is destroyed by its own task");
  stop();
  // The destructor of a task may post or cancel others, so it runs without the lock.
  bool empty = false;
  while (!empty) {
    std::map<TimerId, State::Pending> dropped;
    const MutexLock lock(state_->mutex);
    dropped.swap(state_->pending);
    empty = dropped.empty();
  }
}

Instant AsioExecutor::now() const {
  return std::chrono::floor<Duration>(std::chrono::steady_clock::now());
}

void AsioExecutor::post(Task task) {
  queue(std::move(task));
}

Executor::TimerId AsioExecutor::queue(Task task) {
  TimerId id = 0;
  {
    const MutexLock lock(state_->mutex);
    id = ++state_->last_id;
    if (state_->stopped) return id;
    state_->pending.emplace(id, State::Pending{std::move(task), std::nullopt});
  }
  // Without the lock, for which the thread that this wakes would wait.
  asio::post(state_->context, [state = state_.get(), id] { state->run(id); });
  return id;
}

Executor::TimerId AsioExecutor::after(Duration delay, Task task) {
  // A timer costs two system calls. libcurl requests a delay of 0 with each request.
  if (delay <= Duration::zero()) return queue(std::move(task));
  const MutexLock lock(state_->mutex);
  const TimerId id = ++state_->last_id;
  if (state_->stopped) return id;
  asio::steady_timer timer(state_->context, std::min(delay, kLongestDelay));
  timer.async_wait([state = state_.get(), id](const boost::system::error_code& failure) {
    if (!failure) state->run(id);
  });
  state_->pending.emplace(id, State::Pending{std::move(task), std::move(timer)});
  return id;
}

void AsioExecutor::cancel(TimerId id) {
  std::map<TimerId, State::Pending>::node_type cancelled;  // destroyed after the lock is released
  const MutexLock lock(state_->mutex);
  cancelled = state_->pending.extract(id);
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
