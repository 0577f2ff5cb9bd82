// How much work a process queues: what is queued when its turn ends must be finished before the
// next one begins. How long a launch takes is what launches took of late. Nothing here calls the
// system or the driver.
#pragma once

#include <cstdint>

namespace mgpu::share {

class LaunchWindow {
 public:
  // Nanoseconds of work that is queued.
  static constexpr std::uint64_t kQueued = 3'000'000;

  // `alone`: nobody else wants the card, but may at any moment.
  bool may_launch(bool alone) const {
    const std::uint64_t queued = (in_flight_ + 1) * expected();
    if (in_flight_ == 0 || allowed_ > 0) return true;
    return queued <= (alone ? kAloneFactor * kQueued : kQueued);
  }
  // Returns after how many launches a mark is due in a stream.
  std::uint64_t mark_every() const {
    const std::uint64_t every = kQueued / 4 / expected();
    return every < 1 ? 1 : every < kMarkMax ? every : kMarkMax;
  }
  // Notes a launch. `now`: nanoseconds of a monotonic clock.
  void launched(std::uint64_t now) {
    if (in_flight_++ == 0) last_ = now;
    if (allowed_ > 0) --allowed_;
  }
  // Notes that so many launches have ended since the last ones, with the times between them.
  void finished(std::uint64_t launches, std::uint64_t now) {
    if (launches == 0) return;
    stuck_since_ = 0;
    allowed_ = 0;
    next_allowed_ = 1;
    std::uint64_t each = (now - last_) / launches;
    // The card, or this process, may have done nothing for a while.
    if (each > kGrowth * expected()) each = kGrowth * expected();
    taken_ = taken_ == 0 ? each : (9 * taken_ + each) / 10;
    last_ = now;
    in_flight_ -= launches < in_flight_ ? launches : in_flight_;
  }
  // Notes that a launch waits. Work that waits for a later launch of its program would never end:
  // while nothing is finished, more and more launches are let through.
  void blocked(std::uint64_t now) {
    const std::uint64_t stuck_after = 4 * expected() > kStuckAfter ? 4 * expected() : kStuckAfter;
    if (stuck_since_ == 0) stuck_since_ = now;
    if (now - stuck_since_ < stuck_after) return;
    stuck_since_ = now;
    allowed_ = next_allowed_;
    if (next_allowed_ < kAllowedMax) next_allowed_ *= 2;
  }
  // Drops launches whose end will not be known.
  void drop(std::uint64_t launches) { in_flight_ -= launches < in_flight_ ? launches : in_flight_; }
  // Notes that nothing is queued.
  void clear() { in_flight_ = 0; }

 private:
  static constexpr std::uint64_t kAloneFactor = 4;
  static constexpr std::uint64_t kGrowth = 4;
  static constexpr std::uint64_t kStuckAfter = 20'000'000;
  static constexpr std::uint64_t kAllowedMax = 1'024;
  static constexpr std::uint64_t kMarkMax = 32;
  static constexpr std::uint64_t kLeast = 500;

  std::uint64_t expected() const {
    if (taken_ == 0) return kQueued / 4;
    return taken_ < kLeast ? kLeast : taken_;
  }

  std::uint64_t in_flight_ = 0;
  std::uint64_t taken_ = 0;  // by a launch
  std::uint64_t last_ = 0;
  std::uint64_t stuck_since_ = 0;  // 0: it is not
  std::uint64_t allowed_ = 0;
  std::uint64_t next_allowed_ = 1;
};

}  // namespace mgpu::share
