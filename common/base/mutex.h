// A mutex whose use clang checks (-Wthread-safety): data with MGPU_GUARDED_BY is only accessed by
// code that holds the mutex, and a function with MGPU_REQUIRES is only called with the mutex held.
// Other compilers ignore the annotations.
//
// See https://clang.llvm.org/docs/ThreadSafetyAnalysis.html.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#if defined(__clang__)
#define MGPU_THREAD_ANNOTATION(annotation) __attribute__((annotation))
#else
#define MGPU_THREAD_ANNOTATION(annotation)
#endif

#define MGPU_GUARDED_BY(mutex) MGPU_THREAD_ANNOTATION(guarded_by(mutex))
#define MGPU_REQUIRES(...) MGPU_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define MGPU_ACQUIRE(...) MGPU_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define MGPU_RELEASE(...) MGPU_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
// For the few functions whose locking cannot be analyzed; each has a comment that explains why it
// is correct.
#define MGPU_NO_THREAD_ANALYSIS MGPU_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace mgpu {

// Not recursive.
class MGPU_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void lock() MGPU_ACQUIRE() { mutex_.lock(); }
  void unlock() MGPU_RELEASE() { mutex_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds the mutex while it exists, except between unlock() and lock().
class MGPU_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) MGPU_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() MGPU_RELEASE() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() MGPU_ACQUIRE() { lock_.lock(); }
  void unlock() MGPU_RELEASE() { lock_.unlock(); }

 private:
  friend class ConditionVariable;
  std::unique_lock<std::mutex> lock_;
};

// Like std::condition_variable. A predicate that reads guarded data needs an annotation of its own:
// `[this]() MGPU_REQUIRES(mutex_) { return done_; }`.
class ConditionVariable {
 public:
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

  void wait(MutexLock& lock) { condition_.wait(lock.lock_); }
  template <class Predicate>
  void wait(MutexLock& lock, Predicate predicate) {
    condition_.wait(lock.lock_, predicate);
  }
  template <class Rep, class Period>
  void wait_for(MutexLock& lock, std::chrono::duration<Rep, Period> longest) {
    condition_.wait_for(lock.lock_, longest);
  }
  template <class Rep, class Period, class Predicate>
  bool wait_for(MutexLock& lock, std::chrono::duration<Rep, Period> longest, Predicate predicate) {
    return condition_.wait_for(lock.lock_, longest, predicate);
  }
  template <class Clock, class Duration, class Predicate>
  bool wait_until(MutexLock& lock, std::chrono::time_point<Clock, Duration> deadline,
                  Predicate predicate) {
    return condition_.wait_until(lock.lock_, deadline, predicate);
  }

 private:
  std::condition_variable condition_;
};

}  // namespace mgpu
