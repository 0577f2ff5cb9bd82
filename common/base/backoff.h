// Waits between attempts that fail, each twice as long as the one before, up to a limit. The caller
// has the clock.
#pragma once

#include <algorithm>
#include <utility>

#include "common/base/executor.h"

namespace mgpu {

class Backoff {
 public:
  // REQUIRES: 0 < first <= most.
  constexpr Backoff(Duration first, Duration most) : first_(first), most_(most), next_(first) {}

  // The wait before the next attempt.
  constexpr Duration next() { return std::exchange(next_, std::min(2 * next_, most_)); }
  // Makes the next wait the first one again, after a success.
  constexpr void reset() { next_ = first_; }

 private:
  Duration first_;
  Duration most_;
  Duration next_;
};

}  // namespace mgpu
