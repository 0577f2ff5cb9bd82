// Lets an object be destroyed while callbacks to it are still under way.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace mgpu::verbs {

// Calls come one at a time, from an executor; close() from any thread.
class CallGate {
 public:
  // Runs `call`, or drops it where the gate is closed.
  template <class Call>
  void run(Call&& call) {
    if (!enter()) return;
    std::forward<Call>(call)();
    leave();
  }

  // Waits for the call that is running, except where it is called from within.
  void close() {
    std::unique_lock lock(mutex_);
    closed_ = true;
    if (runner_ == std::this_thread::get_id()) return;
    idle_.wait(lock, [this] { return runner_ == std::thread::id(); });
  }

 private:
  bool enter() {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    runner_ = std::this_thread::get_id();
    return true;
  }

  void leave() {
    const std::lock_guard lock(mutex_);
    runner_ = std::thread::id();
    idle_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable idle_;
  bool closed_ = false;     // protected by mutex_
  std::thread::id runner_;  // protected by mutex_; none: nobody is inside
};

}  // namespace mgpu::verbs
