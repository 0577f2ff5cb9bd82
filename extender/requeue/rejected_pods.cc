#include "extender/requeue/rejected_pods.h"

#include <iterator>

#include "extender/requeue/limits.h"

namespace mgpu::extender {

void RejectedPods::on_filter(const PodUid& uid, std::optional<Rejection> rejection, Instant now) {
  const MutexLock lock(mutex_);
  forget(uid);
  if (!rejection) return;
  if (entries_.size() >= kRejectedPodsMax) drop_front();
  entries_.push_back({uid, *rejection, now});
  by_uid_[uid] = std::prev(entries_.end());
  ++counts_[static_cast<std::size_t>(*rejection)];
}

void RejectedPods::on_settled(const PodUid& uid) {
  const MutexLock lock(mutex_);
  forget(uid);
}

RejectedPods::Counts RejectedPods::counts(Instant now) {
  const MutexLock lock(mutex_);
  while (!entries_.empty() && now - entries_.front().filtered > kRejectedPodLife) drop_front();
  return counts_;
}

void RejectedPods::drop_front() {
  --counts_[static_cast<std::size_t>(entries_.front().rejection)];
  by_uid_.erase(entries_.front().uid);
  entries_.pop_front();
}

void RejectedPods::forget(const PodUid& uid) {
  const auto found = by_uid_.find(uid);
  if (found == by_uid_.end()) return;
  --counts_[static_cast<std::size_t>(found->second->rejection)];
  entries_.erase(found->second);
  by_uid_.erase(found);
}

}  // namespace mgpu::extender
