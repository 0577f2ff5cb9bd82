#include "extender/preemptors.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace mgpu::extender {

void Preemptors::refused(Preemptor pod, Instant now) {
  waiting_.erase(pod.uid);
  if (pod.uid.empty() || pod.nodes.empty() || is_evicting(pod.uid, now)) return;
  if (waiting_.size() >= kPreemptorsMax) {
    const auto least = std::ranges::min_element(
        waiting_, {}, [](const auto& known) { return known.second.pod.priority; });
    if (least->second.pod.priority >= pod.priority) return;
    waiting_.erase(least);
  }
  if (pod.nodes.size() > kPreemptNodesMax) pod.nodes.resize(kPreemptNodesMax);
  const PodUid uid = pod.uid;
  waiting_.emplace(uid, Waiting{std::move(pod), now});
}

std::vector<Preemptors::Preemptor> Preemptors::take_due(Instant now) {
  std::erase_if(evicting_, [now](const auto& known) { return known.second <= now; });
  if (evicting_.size() + kPreemptorsPerPoll > kPreemptorsEvictingMax) return {};
  std::vector<const Waiting*> due;
  for (const auto& [uid, known] : waiting_)
    if (known.refused + kPreemptAfter <= now) due.push_back(&known);
  std::ranges::sort(due, [](const Waiting* a, const Waiting* b) {
    return std::tie(b->pod.priority, a->refused, a->pod.uid) <
           std::tie(a->pod.priority, b->refused, b->pod.uid);
  });
  std::vector<Preemptor> taken;
  std::set<std::string> namespaces;
  for (const Waiting* known : due) {
    if (taken.size() == kPreemptorsPerPoll) break;
    if (namespaces.insert(known->pod.ref.name_space).second) taken.push_back(known->pod);
  }
  for (const Preemptor& pod : taken) waiting_.erase(pod.uid);
  return taken;
}

bool Preemptors::is_evicting(const PodUid& uid, Instant now) const {
  const auto known = evicting_.find(uid);
  return known != evicting_.end() && known->second > now;
}

}  // namespace mgpu::extender
