// The time that kernels take on a card. A kernel whose name ends with a number and "us" takes so
// many microseconds; all others, and all other work, take none. A card runs one kernel at a time,
// in the order in which all processes have launched them: there are no time slices. Kernels of
// clients of MPS run beside each other. The time is that of the monotonic clock.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

namespace mgpu::fake_gpu {

struct Context;
struct Stream;

// Nanoseconds of the monotonic clock.
std::int64_t now();
std::int64_t duration_of_kernel(const std::string& name);

// When the kernels of a stream end.
struct Timeline {
  std::deque<std::int64_t> ends{};  // of those that were not found ended
  std::int64_t end() const { return ends.empty() ? 0 : ends.back(); }
};

// The stream in which the work of this thread runs, while it does.
class RunningIn {
 public:
  explicit RunningIn(Stream* stream);
  ~RunningIn();
  RunningIn(const RunningIn&) = delete;
  RunningIn& operator=(const RunningIn&) = delete;
  RunningIn(RunningIn&&) = delete;
  RunningIn& operator=(RunningIn&&) = delete;

 private:
  Stream* before_;
};

// --- with the lock of the process ---

// Runs a kernel on the card, after those before it in the stream of this thread.
void occupy(Context& context, std::int64_t duration);
// When all kernels end that the default stream of the context, or another stream, waits for.
std::int64_t end_of(Context& context, const Stream* stream);
std::int64_t end_of(const Context& context);

// --- without it ---

// Waits while so many kernels are queued that the driver takes no more.
void wait_for_place(Stream* stream);
// Returns a result: the server of MPS may end meanwhile.
int wait_until(std::int64_t time);

}  // namespace mgpu::fake_gpu
