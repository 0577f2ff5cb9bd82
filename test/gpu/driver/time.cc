#include "test/gpu/driver/time.h"

#include <algorithm>
#include <chrono>

#include "test/gpu/driver/process.h"

namespace mgpu::fake_gpu {
namespace {

// As many launches as a driver queues (seen: 1,024 on an H200).
constexpr std::size_t kQueuedMax = 1'024;

thread_local Stream* running_in = nullptr;

Timeline& timeline_of(Context& context, const Stream* stream) {
  return is_default(stream) ? context.timeline : const_cast<Stream*>(stream)->timeline;
}

void forget_ended(Timeline& timeline) {
  const std::int64_t time = now();
  while (!timeline.ends.empty() && timeline.ends.front() <= time) timeline.ends.pop_front();
}

}  // namespace

std::int64_t now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

std::int64_t duration_of_kernel(const std::string& name) {
  if (!name.ends_with("us")) return 0;
  std::size_t digits = name.size() - 2;
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  const std::string number = name.substr(digits, name.size() - 2 - digits);
  return number.empty() || number.size() > 9 ? 0 : std::stoll(number) * 1'000;
}

RunningIn::RunningIn(Stream* stream) : before_(running_in) {
  running_in = stream;
}

RunningIn::~RunningIn() {
  running_in = before_;
}

void occupy(Context& context, std::int64_t duration) {
  if (duration == 0) return;
  const std::int64_t from = std::max(now(), end_of(context, running_in));
  Timeline& timeline = timeline_of(context, running_in);
  forget_ended(timeline);
  if (is_mps_client()) process().machine->set_work(true);
  timeline.ends.push_back(
      is_mps_client() ? from + duration : process().machine->occupy(context.card, from, duration));
}

// The legacy default stream waits for all others.
std::int64_t end_of(Context& context, const Stream* stream) {
  return is_default(stream) ? end_of(context) : timeline_of(context, stream).end();
}

std::int64_t end_of(const Context& context) {
  std::int64_t end = context.timeline.end();
  for (const Stream* const stream : context.streams) end = std::max(end, stream->timeline.end());
  return end;
}

void wait_for_place(Stream* stream) {
  for (;;) {
    std::int64_t place = 0;
    in_context([&](Context& context) {
      if (!is_default(stream) && !process().streams.contains(stream)) return kInvalidHandle;
      Timeline& timeline = timeline_of(context, stream);
      forget_ended(timeline);
      if (timeline.ends.size() >= kQueuedMax) place = timeline.ends.front();
      return kSuccess;
    });
    if (place == 0) return;
    wait_until(place);
  }
}

int wait_until(std::int64_t time) {
  const std::int64_t left = time - now();
  return left <= 0 || wait_connected(left) ? kSuccess : kMpsRpcFailure;
}

}  // namespace mgpu::fake_gpu
