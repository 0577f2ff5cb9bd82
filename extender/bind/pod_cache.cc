#include "extender/bind/pod_cache.h"

#include <utility>

#include "common/base/mutex.h"

namespace mgpu::extender {

void PodCache::put(const kube::Pod& pod) {
  if (pod.metadata.uid.empty()) return;
  Pods one{pod};
  const MutexLock lock(mutex_);
  const auto known = by_uid_.find(pod.uid());
  if (known != by_uid_.end()) pods_.erase(known->second);
  pods_.splice(pods_.end(), one);
  by_uid_.insert_or_assign(pod.uid(), std::prev(pods_.end()));
  if (pods_.size() <= most_) return;
  by_uid_.erase(pods_.front().uid());
  pods_.pop_front();
}

std::optional<kube::Pod> PodCache::take(const PodUid& uid) {
  const MutexLock lock(mutex_);
  const auto known = by_uid_.find(uid);
  if (known == by_uid_.end()) return std::nullopt;
  kube::Pod pod = std::move(*known->second);
  pods_.erase(known->second);
  by_uid_.erase(known);
  return pod;
}

}  // namespace mgpu::extender
