// A thread for calls that may never return: a driver whose card dies can keep a call for ever.
//
//   Idle --start--> Busy --the work returns--> Idle
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "plugin/cards/limits.h"

namespace mgpu::plugin {

// All but interrupt() are called by one thread at a time.
class DriverThread {
 public:
  DriverThread();
  // Waits until the work has ended, at most `kDriverShutdownTimeout`. Work that hangs beyond it
  // keeps its thread and what it captured: there is no way to end it but the process's end.
  ~DriverThread();
  DriverThread(const DriverThread&) = delete;
  DriverThread& operator=(const DriverThread&) = delete;

  // False while earlier work goes on. `work` must own, or share, all that it uses.
  bool start(std::function<void()> work);
  // Whether the thread is idle, after at most `limit`.
  bool wait(std::chrono::milliseconds limit);

  // Whether interrupt() was called, since the last time this said so, or within `limit`; a wait
  // ends early when the thread is idle, if `until_idle`.
  bool wait_for_interrupt(std::chrono::milliseconds limit, bool until_idle);
  void interrupt();

 private:
  struct State;
  static void serve(State& state);

  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace mgpu::plugin
