// A thread of low priority for long computations. It must not take locks that requests need: a
// thread of low priority that waits for a processor would make them wait, too. So it only computes,
// and the thread that waits for it, which has the priority of the others, takes the locks.
#pragma once

#include <functional>
#include <thread>

#include "common/base/mutex.h"

namespace mgpu::extender {

class LowPriorityThread {
 public:
  LowPriorityThread() = default;
  ~LowPriorityThread();
  LowPriorityThread(const LowPriorityThread&) = delete;
  LowPriorityThread& operator=(const LowPriorityThread&) = delete;

  // Runs `computation` and returns when it is done. The thread starts with the first one. REQUIRES:
  // one caller at a time.
  void run(const std::function<void()>& computation);

 private:
  void loop();

  Mutex mutex_;
  ConditionVariable changed_;
  // Null if there is nothing to do.
  const std::function<void()>* computation_ MGPU_GUARDED_BY(mutex_) = nullptr;
  bool ending_ MGPU_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // used by the caller of run() and the destructor
};

}  // namespace mgpu::extender
