#include "test/gpu/driver/time.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "test/gpu/driver/process.h"

using namespace mgpu::fake_gpu;

namespace mgpu::fake_gpu {
namespace {

// As many launches as a driver queues (seen: 1,024 on an H200).
constexpr std::size_t kQueuedMax = 1'024;
constexpr std::int64_t kQueryNanoseconds = 1'000;

thread_local Stream* running_in = nullptr;
thread_local bool is_running = false;

bool is_virtual() {
  const Machine* const machine = process().machine.get();
  return machine != nullptr && machine->is_virtual();
}

Timeline& timeline_of(Context& context, const Stream* stream) {
  return is_default(stream) ? context.timeline : const_cast<Stream*>(stream)->timeline;
}

void forget_ended(Timeline& timeline) {
  const std::int64_t time = now();
  while (!timeline.ends.empty() && *timeline.ends.front() <= time) timeline.ends.pop_front();
}

// A stream of the default kind waits for the legacy default stream, and that for it
// (cuStreamCreate).
bool is_blocking(const Stream& stream) {
  return stream.flags == 0;
}

void add(const Timeline& timeline, Moments& to) {
  if (!timeline.ends.empty()) to.push_back(timeline.ends.back());
  to.insert(to.end(), timeline.after.begin(), timeline.after.end());
}

// Takes a number with this unit from the end of a name.
std::optional<std::int64_t> take_number(std::string_view& name, std::string_view unit) {
  if (!name.ends_with(unit)) return std::nullopt;
  const std::string_view before = name.substr(0, name.size() - unit.size());
  const std::string_view digits = before.substr(before.find_last_not_of("0123456789") + 1);
  if (digits.empty() || digits.size() > 9) return std::nullopt;
  name = before.substr(0, before.size() - digits.size());
  return std::stoll(std::string(digits));
}

int width_of_process() {
  return std::max(1, static_cast<int>(percent_of_card() * 10));
}

bool try_to_begin(const KernelQueue::Kernel& kernel) {
  Process& p = process();
  if (latest(kernel.after) > now()) return false;
  const int number = p.machine->begin_kernel(kernel.card, kernel.time.nanoseconds,
                                             kernel.time.width, width_of_process());
  if (number >= 0) p.kernels.running[number] = kernel.end;
  return number >= 0;
}

}  // namespace

std::int64_t now() {
  if (is_virtual()) return process().machine->clock();
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

KernelTime time_of_kernel(std::string_view name) {
  KernelTime time;
  const auto duration = take_number(name, "us");
  if (!duration) return time;
  time.nanoseconds = *duration * 1'000;
  const auto percent = take_number(name, "pct_");
  if (percent) time.width = static_cast<int>(std::clamp<std::int64_t>(*percent, 1, 100)) * 10;
  return time;
}

std::int64_t latest(const Moments& moments) {
  std::int64_t last = 0;
  for (const Moment& moment : moments) last = std::max(last, *moment);
  return last;
}

RunningIn::RunningIn(Stream* stream) : before_(running_in), was_running_(is_running) {
  running_in = stream;
  is_running = true;
}

RunningIn::~RunningIn() {
  running_in = before_;
  is_running = was_running_;
}

void occupy(Context& context, KernelTime time) {
  if (time.nanoseconds == 0) return;
  Process& p = process();
  const int width = std::min(time.width, width_of_process());
  time.nanoseconds = time.nanoseconds * time.width / width;
  time.width = width;
  const Moments after = before_next(context, running_in);
  Moment end = std::make_shared<std::int64_t>(kNever);
  if (is_mps_client()) p.machine->set_work(true);
  if (is_virtual()) {
    KernelQueue::Kernel kernel{context.card, time, after, end};
    if (!try_to_begin(kernel)) p.kernels.waiting.push_back(std::move(kernel));
  } else {
    const std::int64_t from = std::max(now(), latest(after));
    *end = is_mps_client() ? from + time.nanoseconds
                           : p.machine->occupy(context.card, from, time.nanoseconds);
  }
  Timeline& timeline = timeline_of(context, running_in);
  forget_ended(timeline);
  timeline.ends.push_back(std::move(end));
  timeline.after.clear();
}

Moments before_next(Context& context, const Stream* stream) {
  Moments found;
  add(timeline_of(context, stream), found);
  if (is_default(stream)) {
    for (const Stream* const other : context.streams) {
      if (is_blocking(*other)) add(other->timeline, found);
    }
  } else if (is_blocking(*stream)) {
    add(context.timeline, found);
  }
  return found;
}

Moments all_of(const Context& context) {
  Moments found;
  add(context.timeline, found);
  for (const Stream* const stream : context.streams) add(stream->timeline, found);
  return found;
}

void add_before_next(Context& context, Stream* stream, const Moments& moments) {
  Moments& after = timeline_of(context, stream).after;
  after.insert(after.end(), moments.begin(), moments.end());
  std::erase_if(after, [time = now()](const Moment& moment) { return *moment <= time; });
}

void settle() {
  if (!is_virtual()) return;
  KernelQueue& kernels = process().kernels;
  for (const int number : process().machine->take_ended()) {
    *kernels.running.at(number) = now();
    kernels.running.erase(number);
  }
  kernels.waiting.remove_if(try_to_begin);
}

void wait_for_place(Stream* stream) {
  for (;;) {
    Moments place;
    in_context([&](Context& context) {
      if (!is_default(stream) && !process().streams.contains(stream)) return kInvalidHandle;
      Timeline& timeline = timeline_of(context, stream);
      forget_ended(timeline);
      if (timeline.ends.size() >= kQueuedMax) place = {timeline.ends.front()};
      return kSuccess;
    });
    if (place.empty()) return;
    wait_for(place);
  }
}

int wait_for(const Moments& moments, std::int64_t until) {
  for (;;) {
    std::int64_t end = until;
    {
      const std::lock_guard lock(process().mutex);
      settle();
      end = std::min(end, latest(moments));
    }
    const std::int64_t left = end - now();
    if (left <= 0) return kSuccess;
    if (!is_virtual()) return wait_connected(left) ? kSuccess : kMpsRpcFailure;
    if (has_lost_mps()) return kMpsRpcFailure;
    process().machine->wait(until);
  }
}

int wait_for_default_stream() {
  Moments before;
  if (!is_running) {
    in_context([&](Context& context) {
      before = before_next(context, nullptr);
      return kSuccess;
    });
  }
  return wait_for(before);
}

void pass_time_of_query() {
  if (is_virtual()) wait_for({std::make_shared<std::int64_t>(kNever)}, now() + kQueryNanoseconds);
}

}  // namespace mgpu::fake_gpu

// --- functions that no driver has, for programs of tests -----------------------------------------

// Nanoseconds of the machine.
FAKE_CUDA std::int64_t fake_gpu_now() {
  return now();
}

// As the time that a program takes for something else. Returns a result.
FAKE_CUDA int fake_gpu_sleep(std::int64_t nanoseconds) {
  const int code = initialized([] { return kSuccess; });
  if (code != kSuccess) return code;
  return wait_for({std::make_shared<std::int64_t>(kNever)}, now() + nanoseconds);
}
