// Lets an object be destroyed while callbacks to it are still pending, such as timers and responses
// of the API server.
//
//   class Reader {
//     void read() {
//       client_.get_pod(pod_, timeout, callbacks_.wrap([this](const auto& pod) { take(pod); }));
//     }
//     ...
//     CallbackGuard callbacks_;  // the last member, which is destroyed first
//   };
#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace mgpu {

// Callbacks run one at a time, on any thread. No callback runs after close() or the destructor has
// returned: both wait for a callback that is running. If they are called from within that callback,
// it continues, and must not use what has been destroyed. The caller of either must not hold a lock
// that a callback takes.
class CallbackGuard {
 public:
  CallbackGuard() = default;
  ~CallbackGuard() { close(); }
  CallbackGuard(const CallbackGuard&) = delete;
  CallbackGuard& operator=(const CallbackGuard&) = delete;

  // Returns a callback that calls `call`, or does nothing once the guard is closed. It may outlive
  // the guard. Thread-safe.
  template <class Call>
  auto wrap(Call call) const {
    return [gate = gate_, call = std::move(call)](auto&&... arguments) mutable -> void {
      // The callback may be destroyed by the function that it calls.
      // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
      const std::shared_ptr<Gate> kept = gate;
      const std::lock_guard lock(kept->running);
      if (!kept->closed) call(std::forward<decltype(arguments)>(arguments)...);
    };
  }

  void close() {
    const std::lock_guard lock(gate_->running);
    gate_->closed = true;
  }

 private:
  struct Gate {
    // Held while a callback runs. Recursive, since a callback may close the guard.
    std::recursive_mutex running;
    bool closed = false;  // protected by `running`
  };

  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
};

}  // namespace mgpu
