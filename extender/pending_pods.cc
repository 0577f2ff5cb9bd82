#include "extender/pending_pods.h"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "common/base/check.h"

namespace mgpu::extender {

void PendingPods::add(const Pending& pod, Instant now) {
  if (pods_.contains(pod.uid)) return;
  if (pods_.size() >= kPendingFollowedMax) {
    incomplete_.insert(pod.ref.name_space);
    return;
  }
  pods_.emplace(
      pod.uid,
      Pod{.ref = pod.ref, .group = pod.group, .next = now + kPendingBeforeEvent, .said = {}});
}

void PendingPods::add_without_cards(const Pending& pod) {
  if (pod.group.empty() || without_cards_.contains(pod.uid)) return;
  if (without_cards_.size() >= kPendingFollowedMax) {
    incomplete_.insert(pod.ref.name_space);
    return;
  }
  without_cards_.emplace(pod.uid, pod.group);
}

void PendingPods::remove(const PodUid& uid) {
  pods_.erase(uid);
  without_cards_.erase(uid);
}

void PendingPods::keep_only(const std::vector<Pending>& pods) {
  std::unordered_set<PodUid> uids;
  for (const Pending& pod : pods) uids.insert(pod.uid);
  const auto ended = [&](const auto& known) { return !uids.contains(known.first); };
  std::erase_if(pods_, ended);
  std::erase_if(without_cards_, ended);
  incomplete_.clear();
}

// The one that is due for longest first.
std::vector<PendingPods::Pending> PendingPods::take_due(Instant now) {
  std::vector<std::pair<const PodUid, Pod>*> due;
  for (auto& known : pods_) {
    if (known.second.next <= now && known.second.events < kPendingEventsMax) due.push_back(&known);
  }
  std::ranges::sort(due, {}, [](const auto* one) {
    return std::pair(one->second.next, std::string_view(one->first.str()));
  });
  std::vector<Pending> taken;
  std::map<std::string_view, std::size_t> of_namespace;
  for (auto* one : due) {
    Pod& pod = one->second;
    if (taken.size() == kPendingExplainedPerPoll) break;
    if (of_namespace[pod.ref.name_space] == kPendingOfANamespace) continue;
    ++of_namespace[pod.ref.name_space];
    pod.next = now + kPendingBetweenLooks;
    taken.push_back({pod.ref, one->first});
  }
  return taken;
}

std::vector<PendingPods::Pending> PendingPods::of_group(const std::string& group,
                                                        std::size_t most) const {
  std::vector<Pending> pods;
  if (incomplete_.contains(group.substr(0, group.find('/')))) return pods;
  for (const auto& [uid, other] : without_cards_)
    if (other == group) return pods;
  for (const auto& [uid, pod] : pods_)
    if (pod.group == group) pods.push_back({pod.ref, uid, group});
  if (pods.size() > most) pods.clear();
  return pods;
}

bool PendingPods::explained(const PodUid& uid, const std::string& text, bool fits, Instant now) {
  const auto known = pods_.find(uid);
  if (known == pods_.end()) return false;
  Pod& pod = known->second;
  const bool fitted = std::exchange(pod.fitted, fits);
  if (text == pod.said || (fits && !fitted)) return false;
  pod.said = text;
  pod.next = now + kPendingBetweenEvents;
  ++pod.events;
  MGPU_CHECK(pod.events <= kPendingEventsMax, "the Events of a pod are bounded");
  return true;
}

}  // namespace mgpu::extender
