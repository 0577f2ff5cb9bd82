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
  auto avoidance = std::ranges::find(pod.avoidances, node, &Avoidance::node);
  if (avoidance == pod.avoidances.end()) {
    if (pod.avoidances.size() >= kAvoidedNodesMax)
      pod.avoidances.erase(std::ranges::min_element(pod.avoidances, {}, &Avoidance::until));
    avoidance = pod.avoidances.insert(pod.avoidances.end(), {node, kAvoidanceFirst / 2, {}});
  }
  avoidance->wait = std::min(2 * avoidance->wait, kAvoidanceMax);
  avoidance->until = now + avoidance->wait;
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
  for (const Avoidance& avoidance : known->second->avoidances)
    if (avoidance.until > now) nodes.push_back(avoidance.node);
  return nodes;
}

std::size_t AnsweredNodes::size() const {
  const MutexLock lock(mutex_);
  return pods_.size();
}

}  // namespace mgpu::extender
