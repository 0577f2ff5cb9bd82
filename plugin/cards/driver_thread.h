// A thread for calls that may never return: a driver can block a call forever if its card fails.
//
//   Idle --start--> Busy --the work returns--> Idle
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "common/base/mutex.h"

namespace mgpu::plugin {

// Only one thread at a time may call the functions, apart from interrupt().
class DriverThread {
 public:
  DriverThread();
  // Waits until the work has ended, at most `kDriverShutdownTimeout`. Work that takes longer keeps
  // its thread and everything that it captured until the process ends.
  ~DriverThread();
  DriverThread(const DriverThread&) = delete;
  DriverThread& operator=(const DriverThread&) = delete;

  // False if earlier work has not ended. `work` must own, or share, everything that it uses.
  bool start(std::function<void()> work);
  // Returns whether the thread is idle, after at most `limit`.
  bool wait(std::chrono::milliseconds limit);

  // Returns whether interrupt() was called since the last call that returned true. Waits for that
  // at most `limit`, or until the thread is idle if `until_idle`.
  bool wait_for_interrupt(std::chrono::milliseconds limit, bool until_idle);
  void interrupt();

 private:
  // Shared with the thread, which may outlive this object.
  struct State {
    Mutex mutex;
    ConditionVariable changed;
    std::function<void()> work;  // empty: idle; set and cleared under `mutex`, runs without it
    bool interrupted MGPU_GUARDED_BY(mutex) = false;
    bool ending MGPU_GUARDED_BY(mutex) = false;
  };
  static void run(State& state);

  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace mgpu::plugin
