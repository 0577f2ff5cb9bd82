// The interface to time, deferred work and randomness. Tests control the clock
// (test/support/manual_executor.h); production runs on Boost.Asio (common/base/asio_executor.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace mgpu {

// A time in milliseconds on a monotonic clock.
using Instant = std::chrono::time_point<std::chrono::steady_clock, std::chrono::milliseconds>;
using Duration = std::chrono::milliseconds;
using Task = std::function<void()>;

// Runs tasks one at a time, and never inside post() or after(). Thread-safe. Tasks that are pending
// when the executor is destroyed are destroyed without being run.
class Executor {
 public:
  using TimerId = std::uint64_t;

  virtual ~Executor() = default;

  virtual Instant now() const = 0;
  virtual void post(Task task) = 0;
  // Runs `task` after `delay`. cancel() destroys a task that has not run yet; it ignores unknown
  // ids.
  virtual TimerId after(Duration delay, Task task) = 0;
  virtual void cancel(TimerId id) = 0;
  // Returns a number that is uniform in [0, 1).
  virtual double random() = 0;
};

}  // namespace mgpu
