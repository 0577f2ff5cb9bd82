// Growing waits between attempts. No I/O, clock or randomness; one thread.
#pragma once

#include <algorithm>

#include "common/base/executor.h"
#include "common/kube/limits.h"

namespace mgpu::plugin {

// kube::kBackoffFirst, doubled up to kube::kBackoffMax, each between half and all of it by
// `random`; short again after kube::kBackoffResetAfter without a need to wait.
class Backoff {
 public:
  // `random` is uniform in [0, 1).
  Duration next(Instant now, double random) {
    if (now - last_ >= kube::kBackoffResetAfter) reset();
    base_ = std::clamp(2 * base_, Duration(kube::kBackoffFirst), Duration(kube::kBackoffMax));
    const double part = 0.5 + random / 2;
    const Duration wait(static_cast<Duration::rep>(static_cast<double>(base_.count()) * part));
    last_ = now + wait;
    return wait;
  }
  void reset() { base_ = Duration(0); }

 private:
  Duration base_{0};
  Instant last_{};  // the end of the last wait
};

}  // namespace mgpu::plugin
