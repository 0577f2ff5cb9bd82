#include "plugin/agent/progress.h"

namespace mgpu::plugin {

bool Progress::wait(std::chrono::milliseconds time) {
  MutexLock lock(mutex_);
  return !changed_.wait_for(lock, time, [this]() MGPU_REQUIRES(mutex_) { return stopping_; });
}

bool Progress::wait_for_change(std::chrono::milliseconds time) {
  MutexLock lock(mutex_);
  changed_.wait_for(lock, time, [this]() MGPU_REQUIRES(mutex_) { return woken_ || stopping_; });
  // Only now, so that a wake() between two waits ends the second one.
  woken_ = false;
  return !stopping_;
}

void Progress::wake() {
  {
    const MutexLock lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void Progress::set_waiting_for(const std::string& what) {
  const MutexLock lock(mutex_);
  waiting_for_ = what;
}

void Progress::set_started() {
  const MutexLock lock(mutex_);
  started_ = true;
}

void Progress::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

bool Progress::stopping() const {
  const MutexLock lock(mutex_);
  return stopping_;
}

void Progress::add_to(Readiness& readiness) const {
  const MutexLock lock(mutex_);
  readiness.draining = stopping_;
  if (!started_) readiness.waiting_for.push_back(waiting_for_);
}

}  // namespace mgpu::plugin
