#include "extender/preemptors.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "extender/ledger/limits.h"

namespace mgpu::extender {

void Preemptors::refused(Preemptor pod, Instant now) {
  Instant first = now;
  if (const auto known = waiting_.find(pod.uid); known != waiting_.end()) {
    first = known->second.first_refused;
    waiting_.erase(known);
  }
  const auto begun = evicting_.find(pod.uid);
  if (begun != evicting_.end() && !pod.nominated && begun->second.since + kNominationSeen <= now)
    evicting_.erase(begun);
  if (pod.uid.empty() || pod.nodes.empty() || is_evicting(pod.uid, now)) return;
  if (waiting_.size() >= kPreemptorsMax && !make_room(pod)) return;
  if (pod.nodes.size() > kPreemptNodesMax) pod.nodes.resize(kPreemptNodesMax);
  const PodUid uid = pod.uid;
  waiting_.emplace(uid, Waiting{std::move(pod), first, now});
}

// Removes the least important pod, if it is less important than this one: of the namespace with
// most pods, if it has more than its part, or else of all.
bool Preemptors::make_room(const Preemptor& pod) {
  std::map<std::string_view, std::size_t> counts;
  for (const auto& [uid, known] : waiting_) ++counts[known.pod.ref.name_space];
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; });
  const bool greedy = most->second > kPreemptorsOfNamespace && most->first != pod.ref.name_space;
  const auto least = std::ranges::min_element(waiting_, {}, [&](const auto& known) {
    const Preemptor& other = known.second.pod;
    return std::tuple(greedy && other.ref.name_space != most->first, other.priority);
  });
  if (!greedy && least->second.pod.priority >= pod.priority) return false;
  waiting_.erase(least);
  return true;
}

void Preemptors::settled(const PodUid& uid) {
  waiting_.erase(uid);
  taken_.erase(uid);
}

bool Preemptors::begin(const PodUid& uid, Instant now, Instant until) {
  if (taken_.erase(uid) == 0) return false;
  waiting_.erase(uid);
  evicting_[uid] = {now, until};
  return true;
}

std::vector<Preemptors::Preemptor> Preemptors::take_due(Instant now) {
  std::erase_if(evicting_, [now](const auto& known) { return known.second.until <= now; });
  std::erase_if(taken_,
                [now](const auto& known) { return known.second + kPreemptAnswerLife <= now; });
  std::erase_if(waiting_, [now](const auto& known) {
    return known.second.last_refused + kPreemptAnswerLife <= now;
  });
  if (evicting_.size() + kPreemptorsPerPoll > kPreemptorsEvictingMax) return {};
  std::vector<const Waiting*> due;
  for (const auto& [uid, known] : waiting_) {
    const bool quiet = known.last_refused + kPreemptQuiet <= now ||
                       known.first_refused + kPreemptWithoutQuiet <= now;
    if (quiet && known.first_refused + kPreemptAfter <= now) due.push_back(&known);
  }
  std::ranges::sort(due, [](const Waiting* a, const Waiting* b) {
    return std::tie(b->pod.priority, a->first_refused, a->pod.uid) <
           std::tie(a->pod.priority, b->first_refused, b->pod.uid);
  });
  std::vector<Preemptor> taken;
  std::set<std::string> namespaces;
  for (const Waiting* known : due) {
    if (taken.size() == kPreemptorsPerPoll) break;
    if (namespaces.insert(known->pod.ref.name_space).second) taken.push_back(known->pod);
  }
  for (const Preemptor& pod : taken) {
    waiting_.erase(pod.uid);
    taken_[pod.uid] = now;
  }
  return taken;
}

bool Preemptors::is_evicting(const PodUid& uid, Instant now) const {
  const auto known = evicting_.find(uid);
  return known != evicting_.end() && known->second.until > now;
}

}  // namespace mgpu::extender
