// Lets an object end while callbacks to it are still on their way: answers of the API server and
// timers come on an executor, and some come late.
//
//   class Reader {
//     void read() {
//       client_.get_pod(pod_, timeout, callbacks_.wrap([this](const auto& pod) { take(pod); }));
//     }
//     ...
//     CallbackGuard callbacks_;  // the last member: it ends first
//   };
#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace mgpu {

// Callbacks run one at a time, on any thread. No callback runs after close() or the destructor
// returns: they wait for the one that is running, unless they are called from within it. Then it
// goes on, and must not touch what has ended. Whoever ends the guard must hold no lock that a
// callback takes.
class CallbackGuard {
 public:
  CallbackGuard() = default;
  ~CallbackGuard() { close(); }
  CallbackGuard(const CallbackGuard&) = delete;
  CallbackGuard& operator=(const CallbackGuard&) = delete;

  // `call` as a callback that does nothing once this has been closed. It may outlive the guard, and
  // takes what `call` takes. Any thread.
  template <class Call>
  auto wrap(Call call) const {
    return [gate = gate_, call = std::move(call)](auto&&... arguments) mutable -> void {
      // The callback itself may be destroyed by what it calls.
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
    // Held while a callback runs. Recursive, since a callback may end the guard.
    std::recursive_mutex running;
    bool closed = false;  // protected by `running`
  };

  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
};

}  // namespace mgpu
