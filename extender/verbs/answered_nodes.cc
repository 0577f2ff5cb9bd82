#include "extender/verbs/answered_nodes.h"

#include <algorithm>
#include <utility>

#include "extender/verbs/limits.h"

namespace mgpu::extender {

void AnsweredNodes::asked(const PodUid& uid, Instant now) {
  const MutexLock lock(mutex_);
  const auto known = by_uid_.find(uid);
  if (known == by_uid_.end() || known->second->answered.empty()) return;
  Pod& pod = *known->second;
  const std::string node = std::exchange(pod.answered, {});
  auto refusal = std::ranges::find(pod.refusals, node, &Refusal::node);
  if (refusal == pod.refusals.end()) {
    if (pod.refusals.size() >= kAvoidedNodesMax)
      pod.refusals.erase(std::ranges::min_element(pod.refusals, {}, &Refusal::until));
    refusal = pod.refusals.insert(pod.refusals.end(), {node, kAvoidanceFirst / 2, {}});
  }
  refusal->wait = std::min(2 * refusal->wait, kAvoidanceMax);
  refusal->until = now + refusal->wait;
}

void AnsweredNodes::answered(const PodUid& uid, std::string_view node) {
  if (uid.empty()) return;
  const MutexLock lock(mutex_);
  auto known = by_uid_.find(uid);
  if (known == by_uid_.end()) {
    if (pods_.size() >= kAnsweredPodsMax) {
      by_uid_.erase(pods_.front().uid);
      pods_.pop_front();
    }
    known = by_uid_.emplace(uid, pods_.insert(pods_.end(), {uid, {}, {}})).first;
  } else {
    pods_.splice(pods_.end(), pods_, known->second);
  }
  known->second->answered = node;
}

void AnsweredNodes::forget_answer(const PodUid& uid) {
  const MutexLock lock(mutex_);
  const auto known = by_uid_.find(uid);
  if (known != by_uid_.end()) known->second->answered.clear();
}

void AnsweredNodes::end(const PodUid& uid) {
  const MutexLock lock(mutex_);
  const auto known = by_uid_.find(uid);
  if (known == by_uid_.end()) return;
  pods_.erase(known->second);
  by_uid_.erase(known);
}

std::vector<std::string> AnsweredNodes::avoided(const PodUid& uid, Instant now) const {
  const MutexLock lock(mutex_);
  const auto known = by_uid_.find(uid);
  if (known == by_uid_.end()) return {};
  std::vector<std::string> nodes;
  for (const Refusal& refusal : known->second->refusals)
    if (refusal.until > now) nodes.push_back(refusal.node);
  return nodes;
}

std::size_t AnsweredNodes::size() const {
  const MutexLock lock(mutex_);
  return pods_.size();
}

}  // namespace mgpu::extender
