// Pods that filter was sent, kept for the bind that follows. Thread-safe.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "extender/bind/bindable_pod.h"

namespace mgpu::extender {

class PodCache {
 public:
  struct Limits {
    std::size_t pods = 0;
    std::size_t bytes = 0;      // of all pods, see bytes_of
    std::size_t pod_bytes = 0;  // of one pod
  };
  // Keeps the pods that were put last.
  explicit PodCache(Limits limits) : limits_(limits) {}

  // A pod without a uid or resourceVersion is not kept, nor one that is too large.
  void put(BindablePod pod);
  // Removes the pod: kube-scheduler calls filter again before it binds again.
  std::optional<BindablePod> take(const PodUid& uid);
  struct Facts {
    std::string group;
    NodeName nominated;
  };
  // Returns nullopt if the pod is not kept.
  std::optional<Facts> facts_of(const PodUid& uid) const;
  std::size_t bytes() const;

 private:
  struct Kept {
    BindablePod pod;
    std::size_t bytes = 0;
  };
  using Pods = std::list<Kept>;  // the one put longest ago is in front

  void erase(Pods::iterator kept) MGPU_REQUIRES(mutex_);

  const Limits limits_;
  mutable Mutex mutex_;
  Pods pods_ MGPU_GUARDED_BY(mutex_);
  std::unordered_map<PodUid, Pods::iterator> by_uid_ MGPU_GUARDED_BY(mutex_);
  std::size_t bytes_ MGPU_GUARDED_BY(mutex_) = 0;
};

}  // namespace mgpu::extender
