// Pods that filter was sent, kept for the bind that follows. Thread-safe.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <unordered_map>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/kube/objects.h"

namespace mgpu::extender {

class PodCache {
 public:
  // Keeps the `most` pods that were put last.
  explicit PodCache(std::size_t most) : most_(most) {}

  // Pods without a uid are not kept.
  void put(const kube::Pod& pod);
  // Removes the pod: kube-scheduler calls filter again before it binds again.
  std::optional<kube::Pod> take(const PodUid& uid);

 private:
  using Pods = std::list<kube::Pod>;  // the one put longest ago is in front

  const std::size_t most_;
  Mutex mutex_;
  Pods pods_ MGPU_GUARDED_BY(mutex_);
  std::unordered_map<PodUid, Pods::iterator> by_uid_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::extender
