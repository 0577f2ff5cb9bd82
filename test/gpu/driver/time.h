// The time that kernels take on a card. A kernel whose name ends with a number and "us" takes so
// many microseconds, and with "25pct_200us" it needs only so much of the card; all others, and all
// other work, take none. A client of MPS has its thread percentage of the card at most, and kernels
// that want more take longer.
//
// In real time, that of the monotonic clock, a card runs one kernel at a time, in the order in
// which all processes have launched them: there are no time slices. Kernels of clients of MPS run
// beside each other. Virtual time is that of the machine (clock.cc).
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "test/gpu/limits.h"

namespace mgpu::fake_gpu {

struct Context;
struct Stream;

// Nanoseconds of the clock.
std::int64_t now();

inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

struct KernelTime {
  std::int64_t nanoseconds = 0;
  int width = kWholeWidth;
};
KernelTime time_of_kernel(std::string_view name);

// When a kernel ends; kNever until that is known.
using Moment = std::shared_ptr<std::int64_t>;
using Moments = std::vector<Moment>;
// The last one; 0 if there is none.
std::int64_t latest(const Moments& moments);

struct Timeline {
  std::deque<Moment> ends{};  // of kernels that were not found ended
  Moments after{};            // that the next one waits for, too
};

// In virtual time: kernels that wait for others, and those that run, by their numbers.
struct KernelQueue {
  struct Kernel {
    int card = 0;
    KernelTime time{};
    Moments after{};
    Moment end{};
  };
  std::list<Kernel> waiting{};
  std::map<int, Moment> running{};
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
  bool was_running_;
};

// --- with the lock of the process ---

// Runs a kernel on the card, after those before it in the stream of this thread.
void occupy(Context& context, KernelTime time);
// What work waits for that is queued now in a stream, or in the default stream of the context.
Moments before_next(Context& context, const Stream* stream);
// All kernels of the context.
Moments all_of(const Context& context);
// The next kernel of the stream waits for these, too.
void add_before_next(Context& context, Stream* stream, const Moments& moments);
// Finds kernels that have ended, and begins those that waited for them.
void settle();

// --- without it ---

// Waits while so many kernels are queued that the driver takes no more.
void wait_for_place(Stream* stream);
// Waits for all of these, or until then. Returns a result: the server of MPS may end meanwhile.
int wait_for(const Moments& moments, std::int64_t until = kNever);
// Waits for what the default stream has, unless this is work of a stream itself. Returns a result.
int wait_for_default_stream();
// The time that a program takes which asks again and again whether something has ended.
void pass_time_of_query();

}  // namespace mgpu::fake_gpu
