#include "extender/verbs/victims.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "extender/ledger/disruption_budgets.h"
#include "extender/placement/limits.h"
#include "extender/placement/place.h"

namespace mgpu::extender {
namespace {

using Pods = std::vector<const NodePod*>;

// The order of MoreImportantPod, which kube-scheduler uses for victims.
bool more_important(const NodePod* a, const NodePod* b) {
  const Candidate& of_a = a->candidate;
  const Candidate& of_b = b->candidate;
  if (of_a.priority != of_b.priority) return of_a.priority > of_b.priority;
  if (of_a.start_time != of_b.start_time) return of_a.start_time < of_b.start_time;
  return a->uid < b->uid;
}

std::int64_t count_violations(const Pods& victims, const DisruptionBudgets& budgets) {
  std::vector<DisruptionBudgets::PodLabels> labels;
  labels.reserve(victims.size());
  for (const NodePod* victim : victims) labels.push_back({&victim->name_space, &victim->labels});
  return std::ranges::count(budgets.violations(labels), true);
}

bool contains(const Pods& pods, const NodePod* pod) {
  return std::ranges::find(pods, pod) != pods.end();
}

Node without(Node node, const Pods& pods) {
  for (const NodePod* pod : pods) evict(node, pod->candidate);
  return node;
}

bool cards_fit(const Node& node, const GpuRequest& request, SearchBudget& steps) {
  SearchBudget own{kPlacementStepsMax};
  const bool fits = !why_not(node, request, own);
  steps.spend(kPlacementStepsMax - own.steps);
  return fits;
}

class Decision {
 public:
  Decision(const NodeVictims& proposed, const NodeState& state, const Preemptor& pod,
           SearchBudget& steps)
      : proposed_(proposed), state_(state), pod_(pod), steps_(steps) {
    for (const PodUid& uid : proposed.victims) {
      const auto found = std::ranges::find(state.pods, uid, &NodePod::uid);
      if (found != state.pods.end()) known_.push_back(&*found);
    }
  }

  // kube-scheduler has shown that its other filters pass.
  bool proposal_suffices() const {
    return !proposed_.victims.empty() && may_evict(known_) &&
           cards_fit(without(state_.node, known_), pod_.request, steps_);
  }

  // The cheapest set of all that are shown to suffice.
  std::optional<Pods> replacement() const {
    if (!resources_are_known() || !pod_.only_resources) return std::nullopt;
    Pods kept;
    Pods without_cards;
    for (const NodePod* pod : known_) {
      if (!pod->only_resources) kept.push_back(pod);
      if (pod->only_resources && !pod->holds_cards) without_cards.push_back(pod);
    }
    if (!may_evict(kept)) return std::nullopt;
    Pods evicted = kept;
    std::ranges::copy(without_cards, std::back_inserter(evicted));
    auto victims = add_cheapest(std::move(evicted), pod_.resources);
    if (victims) restore(without_cards, *victims);
    return victims;
  }

  // The proposal, and the cheapest set of others that frees the cards then.
  std::optional<Pods> extension() const {
    if (!may_evict(known_)) return std::nullopt;
    return add_cheapest(known_, std::nullopt);
  }

  NodeVictims answer(Pods victims, const DisruptionBudgets& budgets) const {
    NodeVictims answer{proposed_.node, {}, 0};
    const Pods all = victims;
    std::erase_if(victims, [](const NodePod* pod) { return !pod->holds_cards; });
    std::ranges::sort(victims, more_important);
    for (const NodePod* victim : victims) answer.victims.push_back(victim->uid);
    for (const PodUid& uid : proposed_.victims) {
      const auto known = std::ranges::find(known_, uid, &NodePod::uid);
      const bool stays = known == known_.end() || (!(*known)->holds_cards && contains(all, *known));
      if (stays) answer.victims.push_back(uid);
    }
    answer.pdb_violations = count_violations(victims, budgets);
    return answer;
  }

 private:
  // No pod of equal or higher priority may be evicted: where kube-scheduler proposes one of these,
  // its state and the ledger differ.
  static bool may_evict(const Pods& pods) {
    return std::ranges::all_of(
        pods, [](const NodePod* pod) { return pod->evictable || !pod->holds_cards; });
  }

  bool resources_are_known() const {
    const Node& node = state_.node;
    return !node.allocatable.cpu.zero() && !node.allocatable.memory.zero() && node.pods_allowed > 0;
  }

  std::optional<Pods> add_cheapest(Pods evicted,
                                   const std::optional<NodeResources>& resources) const {
    Pods others;
    std::vector<Candidate> candidates;
    for (const NodePod& pod : state_.pods) {
      if (!pod.holds_cards || !pod.evictable || contains(evicted, &pod)) continue;
      others.push_back(&pod);
      candidates.push_back(pod.candidate);
    }
    const auto eviction =
        choose_victims(without(state_.node, evicted), pod_.request, candidates, resources, steps_);
    if (!eviction) return std::nullopt;
    for (const std::size_t index : eviction->victims) evicted.push_back(others[index]);
    return evicted;
  }

  // Removes from the victims, one after the other, those of `pods` that are not needed.
  void restore(const Pods& pods, Pods& victims) const {
    for (const NodePod* pod : pods) {
      Pods fewer = victims;
      std::erase(fewer, pod);
      if (has_resources_for(without(state_.node, fewer), pod_.resources))
        victims = std::move(fewer);
    }
  }

  const NodeVictims& proposed_;
  const NodeState& state_;
  const Preemptor& pod_;
  SearchBudget& steps_;
  Pods known_;  // of the proposed victims
};

bool same_pods(std::vector<PodUid> a, std::vector<PodUid> b) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  return a == b;
}

}  // namespace

std::optional<NodeVictims> choose_on_node(const NodeVictims& proposed, const NodeState& state,
                                          const Preemptor& pod, const DisruptionBudgets& budgets,
                                          SearchBudget& steps) {
  const Decision decision(proposed, state, pod, steps);
  if (decision.proposal_suffices()) return proposed;
  auto victims = decision.replacement();
  if (!victims) victims = decision.extension();
  if (!victims) return std::nullopt;
  NodeVictims answer = decision.answer(*std::move(victims), budgets);
  if (answer.victims.empty()) return std::nullopt;
  if (same_pods(answer.victims, proposed.victims)) return proposed;
  return answer;
}

}  // namespace mgpu::extender
