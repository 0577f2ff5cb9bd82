// How far the agent's start has come, and whether it is to end. Thread-safe.
//
//   Waiting for something --set_started()--> Started; stop() ends both
#pragma once

#include <chrono>
#include <string>

#include "common/base/mutex.h"
#include "common/program/service_routes.h"

namespace mgpu::plugin {

class Progress {
 public:
  // Returns after `time`, or at once in the end. False: the agent is being destroyed.
  bool wait(std::chrono::milliseconds time);
  // The same, and returns at once after wake(), even if that came before this call. A wake() ends
  // one call at most.
  bool wait_for_change(std::chrono::milliseconds time);
  void wake();

  void set_waiting_for(const std::string& what);
  void set_started();
  void stop();
  bool stopping() const;
  void add_to(Readiness& readiness) const;

 private:
  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool stopping_ MGPU_GUARDED_BY(mutex_) = false;
  bool woken_ MGPU_GUARDED_BY(mutex_) = false;
  bool started_ MGPU_GUARDED_BY(mutex_) = false;
  std::string waiting_for_ MGPU_GUARDED_BY(mutex_) = "the container runtime";  // until started_
};

}  // namespace mgpu::plugin
