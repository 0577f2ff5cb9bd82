#include "extender/requeue/rejected_pods.h"

#include "common/base/check.h"
#include "extender/requeue/limits.h"

namespace mgpu::extender {

void RejectedPods::on_filter(const PodUid& uid, std::optional<Rejection> rejection, Instant now) {
  const MutexLock lock(mutex_);
  pods_.erase(uid);
  if (rejection && pods_.size() < kRejectedPodsMax) pods_[uid] = {*rejection, now};
  MGPU_CHECK(pods_.size() <= kRejectedPodsMax, "the rejected pods are bounded");
}

void RejectedPods::on_settled(const PodUid& uid) {
  const MutexLock lock(mutex_);
  pods_.erase(uid);
}

RejectedPods::Counts RejectedPods::counts(Instant now) {
  const MutexLock lock(mutex_);
  std::erase_if(pods_,
                [now](const auto& pod) { return now - pod.second.filtered > kRejectedPodLife; });
  Counts counts{};
  for (const auto& [uid, pod] : pods_) ++counts[static_cast<std::size_t>(pod.rejection)];
  return counts;
}

}  // namespace mgpu::extender
