// The pods that filter has rejected, and what they wait for, for metrics. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <unordered_map>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "extender/placement/reason.h"

namespace mgpu::extender {

inline constexpr std::size_t kRejections = 5;  // enumerators of Rejection

class RejectedPods {
 public:
  using Counts = std::array<std::size_t, kRejections>;  // by Rejection

  // Filter has answered: the pod waits for `rejection`, or fits if there is none. More than
  // kRejectedPodsMax pods are not counted.
  void on_filter(const PodUid& uid, std::optional<Rejection> rejection, Instant now);
  // The pod is bound, finished or deleted.
  void on_settled(const PodUid& uid);
  // A pending pod that is deleted has no event here: it counts for kRejectedPodLife after its last
  // filter.
  Counts counts(Instant now);

 private:
  struct Rejected {
    Rejection rejection;
    Instant filtered;
  };

  Mutex mutex_;
  std::unordered_map<PodUid, Rejected> pods_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::extender
