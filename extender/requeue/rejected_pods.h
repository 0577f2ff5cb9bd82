// The pods that filter has rejected, and what they wait for, for metrics. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <list>
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

  // Filter has answered: the pod waits for `rejection`, or fits where there is none. With more than
  // kRejectedPodsMax pods the one that was filtered longest ago is dropped.
  void on_filter(const PodUid& uid, std::optional<Rejection> rejection, Instant now);
  // The pod is bound, finished or deleted.
  void on_settled(const PodUid& uid);
  // A pending pod that is deleted has no event here: it counts for kRejectedPodLife after its last
  // filter.
  Counts counts(Instant now);

 private:
  struct Entry {
    PodUid uid;
    Rejection rejection;
    Instant filtered;
  };
  using Entries = std::list<Entry>;

  void drop_front() MGPU_REQUIRES(mutex_);
  void forget(const PodUid& uid) MGPU_REQUIRES(mutex_);

  Mutex mutex_;
  Entries entries_ MGPU_GUARDED_BY(mutex_);  // the one filtered longest ago is in front
  std::unordered_map<PodUid, Entries::iterator> by_uid_ MGPU_GUARDED_BY(mutex_);
  Counts counts_ MGPU_GUARDED_BY(mutex_){};
};

}  // namespace mgpu::extender
