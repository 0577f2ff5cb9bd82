#include "plugin/cards/driver_thread.h"

#include <utility>
#include <vector>

#include "common/base/check.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin {

DriverThread::DriverThread()
    : state_(std::make_shared<State>()), thread_([state = state_] { run(*state); }) {}

DriverThread::~DriverThread() {
  const bool idle = wait(kDriverShutdownTimeout);
  {
    const MutexLock lock(state_->mutex);
    state_->ending = true;
    state_->changed.notify_all();
  }
  if (idle) {
    thread_.join();
    return;
  }
  // Joining a thread that hangs would hang as well. It is kept, and ends when its work does.
  static Mutex mutex;
  static auto* const hanging = new std::vector<std::thread>;
  const MutexLock lock(mutex);
  hanging->push_back(std::move(thread_));
}

void DriverThread::run(State& state) {
  MutexLock lock(state.mutex);
  while (true) {
    state.changed.wait(lock,
                       [&]() MGPU_REQUIRES(state.mutex) { return state.ending || state.work; });
    if (!state.work) return;
    lock.unlock();
    state.work();
    lock.lock();
    MGPU_DEBUG_CHECK(state.work != nullptr, "no other work begins before this has ended");
    state.work = nullptr;
    state.changed.notify_all();
  }
}

bool DriverThread::start(std::function<void()> work) {
  const MutexLock lock(state_->mutex);
  if (state_->work) return false;
  state_->work = std::move(work);
  state_->changed.notify_all();
  return true;
}

bool DriverThread::wait(std::chrono::milliseconds limit) {
  MutexLock lock(state_->mutex);
  return state_->changed.wait_for(lock, limit, [&] { return !state_->work; });
}

bool DriverThread::wait_for_interrupt(std::chrono::milliseconds limit, bool until_idle) {
  MutexLock lock(state_->mutex);
  const auto over = [&]() MGPU_REQUIRES(state_->mutex) {
    return state_->interrupted || (until_idle && !state_->work);
  };
  state_->changed.wait_for(lock, limit, over);
  return std::exchange(state_->interrupted, false);
}

void DriverThread::interrupt() {
  const MutexLock lock(state_->mutex);
  state_->interrupted = true;
  state_->changed.notify_all();
}

}  // namespace mgpu::plugin
