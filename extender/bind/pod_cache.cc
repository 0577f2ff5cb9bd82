#include "extender/bind/pod_cache.h"

#include <iterator>
#include <utility>

#include "common/base/check.h"

namespace mgpu::extender {

void PodCache::put(BindablePod pod) {
  if (pod.uid.empty() || pod.resource_version.empty()) return;
  const std::size_t bytes = bytes_of(pod);
  const PodUid uid = pod.uid;
  const MutexLock lock(mutex_);
  const auto known = by_uid_.find(uid);
  // Before the check of the size: bind must not find an older version of a pod that is too large.
  if (known != by_uid_.end()) erase(known->second);
  if (bytes > limits_.pod_bytes) return;
  pods_.push_back({std::move(pod), bytes});
  by_uid_.emplace(uid, std::prev(pods_.end()));
  bytes_ += bytes;
  while (pods_.size() > limits_.pods || bytes_ > limits_.bytes) erase(pods_.begin());
  MGPU_CHECK(by_uid_.size() == pods_.size(), "each pod that is kept is found by its uid");
}

std::optional<BindablePod> PodCache::take(const PodUid& uid) {
  const MutexLock lock(mutex_);
  const auto known = by_uid_.find(uid);
  if (known == by_uid_.end()) return std::nullopt;
  BindablePod pod = std::move(known->second->pod);
  bytes_ -= known->second->bytes;
  pods_.erase(known->second);
  by_uid_.erase(known);
  MGPU_CHECK(by_uid_.size() == pods_.size(), "each pod that is kept is found by its uid");
  return pod;
}

std::optional<PodCache::Facts> PodCache::facts_of(const PodUid& uid) const {
  const MutexLock lock(mutex_);
  const auto known = by_uid_.find(uid);
  if (known == by_uid_.end()) return std::nullopt;
  const BindablePod& pod = known->second->pod;
  return Facts{pod.request.pod.group, pod.nominated};
}

std::size_t PodCache::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

void PodCache::erase(Pods::iterator kept) {
  MGPU_CHECK(kept->bytes <= bytes_, "the sum has each of its pods");
  bytes_ -= kept->bytes;
  by_uid_.erase(kept->pod.uid);
  pods_.erase(kept);
}

}  // namespace mgpu::extender
