// Passes a value from the thread that gives it to the session that waits for it. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/mutex.h"

namespace mgpu::http {

template <class T>
class Answer {
 public:
  // Gives the value. Only the first one is kept, and none after close().
  void give(T value) {
    const MutexLock lock(mutex_);
    if (closed_) return;
    closed_ = true;
    value_ = std::move(value);
    if (const auto notify = std::exchange(notify_, nullptr)) notify();
  }
  // Takes the value. If there is none yet, `notify` will be called once, on the thread that gives
  // it.
  std::optional<T> take_or(std::function<void()> notify) {
    const MutexLock lock(mutex_);
    if (!value_) notify_ = std::move(notify);
    return std::exchange(value_, std::nullopt);
  }
  // Discards the value. `notify` is not called after it has returned.
  void close() {
    const MutexLock lock(mutex_);
    closed_ = true;
    notify_ = nullptr;
  }

 private:
  Mutex mutex_;
  std::optional<T> value_ MGPU_GUARDED_BY(mutex_);
  std::function<void()> notify_ MGPU_GUARDED_BY(mutex_);
  bool closed_ MGPU_GUARDED_BY(mutex_) = false;
};

// Closes an answer at the end of its exchange.
template <class T>
struct Closing {
  std::shared_ptr<Answer<T>> answer = std::make_shared<Answer<T>>();
  ~Closing() { answer->close(); }
};

// A function that gives the value; `otherwise` is given if all copies are destroyed without a call.
template <class T>
std::function<void(T)> give_into(const std::shared_ptr<Answer<T>>& answer, T otherwise) {
  const std::shared_ptr<void> unanswered(
      nullptr, [answer, otherwise = std::move(otherwise)](void*) { answer->give(otherwise); });
  return [answer, unanswered](T value) { answer->give(std::move(value)); };
}

}  // namespace mgpu::http
