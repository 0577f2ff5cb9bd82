// Time, deferral and randomness as a seam: everything that lives longer than a call gets them from
// here, so that tests own the clock (test/support/manual_executor.h) and production runs on
// Boost.Asio (common/base/asio_executor.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace mgpu {

// Milliseconds of a clock that never goes back; its zero has no meaning.
using Instant = std::chrono::time_point<std::chrono::steady_clock, std::chrono::milliseconds>;
using Duration = std::chrono::milliseconds;
using Task = std::function<void()>;

// Runs tasks one at a time, never inside post() or after(). All functions are safe for concurrent
// use. Tasks left when the executor ends are destroyed without being run.
class Executor {
 public:
  using TimerId = std::uint64_t;

  virtual ~Executor() = default;

  virtual Instant now() const = 0;
  virtual void post(Task task) = 0;
  // Runs `task` once `delay` has passed. cancel() before that destroys it; an id whose task has
  // run is ignored.
  virtual TimerId after(Duration delay, Task task) = 0;
  virtual void cancel(TimerId id) = 0;
  // Uniform in [0, 1).
  virtual double random() = 0;
};

}  // namespace mgpu
