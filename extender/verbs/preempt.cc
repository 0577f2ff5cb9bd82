#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "extender/ledger/disruption_budgets.h"
#include "extender/placement/preemption/preemption.h"
#include "extender/verbs/pod_request.h"
#include "extender/verbs/verbs.h"

// kube-scheduler 1.36 fails the whole preemption when one node of the answer has no victims
// (callExtenders in pkg/scheduler/framework/preemption/preemption.go). So no node is answered
// without victims: where the cards are free already the proposed victims stay, because
// kube-scheduler proposed them for other reasons, such as CPU.

namespace mgpu::extender {
namespace {

// A pod on the node that holds cards.
struct Holder {
  PodUid uid;
  std::string name_space;
  kube::StringMap labels;
  bool evictable = false;  // bound, and of lower priority; the API server has no assumed pods
  Candidate candidate;
};

// What the decision about one node needs. It is a copy, so that the decision does not hold the
// ledger's lock.
struct NodeState {
  Node node;
  std::vector<Holder> holders;
};

// One entry for each proposed node; nothing where the node is unknown.
std::vector<std::optional<NodeState>> read_nodes(const PreemptionArgs& args, Ledger& ledger,
                                                 Instant now) {
  std::vector<std::optional<NodeState>> states;
  ledger.read(now, [&](const View& view) {
    for (const NodeVictims& proposed : args.nodes) {
      auto& state = states.emplace_back();
      const Node* node = view.find(proposed.node.str());
      if (node == nullptr) continue;
      state.emplace(NodeState{*node, {}});
      for (const ClaimView* held : view.claims_on(proposed.node.str())) {
        const Claim& claim = held->claim;
        const bool evictable = held->phase == Phase::kBound && claim.priority < args.pod.priority;
        state->holders.push_back({claim.uid,
                                  claim.pod.name_space,
                                  claim.labels,
                                  evictable,
                                  {claim.priority, claim.start_time, false, held->holds}});
      }
    }
  });
  return states;
}

// The order of MoreImportantPod, which kube-scheduler uses for victims.
bool more_important(const Holder* a, const Holder* b) {
  if (a->candidate.priority != b->candidate.priority) {
    return a->candidate.priority > b->candidate.priority;
  }
  if (a->candidate.start_time != b->candidate.start_time) {
    return a->candidate.start_time < b->candidate.start_time;
  }
  return a->uid < b->uid;
}

std::int64_t count_violations(const std::vector<const Holder*>& victims,
                              const DisruptionBudgets& budgets) {
  std::vector<DisruptionBudgets::PodLabels> labels;
  labels.reserve(victims.size());
  for (const Holder* victim : victims) labels.push_back({&victim->name_space, &victim->labels});
  return std::ranges::count(budgets.violations(labels), true);
}

// The holders to evict, the most important first; nothing where no eviction helps. Each candidate
// is checked against the budgets alone, since the other victims are not known before the choice.
std::optional<std::vector<const Holder*>> choose(const NodeState& state, const GpuRequest& request,
                                                 const DisruptionBudgets& budgets) {
  std::vector<const Holder*> evictable;
  std::vector<Candidate> candidates;
  for (const Holder& holder : state.holders) {
    if (!holder.evictable) continue;
    evictable.push_back(&holder);
    candidates.push_back(holder.candidate);
    candidates.back().breaks_budget = count_violations({&holder}, budgets) > 0;
  }
  const auto eviction = choose_victims(state.node, request, candidates);
  if (!eviction) return std::nullopt;
  std::vector<const Holder*> victims;
  for (const std::size_t index : eviction->victims) victims.push_back(evictable[index]);
  std::ranges::sort(victims, more_important);
  return victims;
}

bool same_pods(std::vector<PodUid> a, std::vector<PodUid> b) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  return a == b;
}

// The answer for one node; nothing where it is left out.
std::optional<NodeVictims> decide(const NodeVictims& proposed, const NodeState& state,
                                  const GpuRequest& request, const DisruptionBudgets& budgets) {
  const auto victims = choose(state, request, budgets);
  if (!victims || (victims->empty() && proposed.victims.empty())) return std::nullopt;
  if (victims->empty()) return proposed;
  NodeVictims answer{proposed.node, {}, 0};
  for (const Holder* victim : *victims) answer.victims.push_back(victim->uid);
  // Proposed victims that hold no cards stay: kube-scheduler proposed them for other reasons.
  std::unordered_set<PodUid> holders;
  for (const Holder& holder : state.holders) holders.insert(holder.uid);
  for (const PodUid& uid : proposed.victims) {
    if (!holders.contains(uid)) answer.victims.push_back(uid);
  }
  if (same_pods(answer.victims, proposed.victims)) return proposed;
  answer.pdb_violations = count_violations(*victims, budgets);
  return answer;
}

}  // namespace

std::vector<NodeVictims> preempt(const PreemptionArgs& args, Ledger& ledger,
                                 const DisruptionBudgets& budgets, const Settings& settings,
                                 Instant now) {
  const auto pod = read_pod_request(args.pod, settings);
  if (!pod) return {};
  if (pod->request.empty()) return args.nodes;
  const auto states = read_nodes(args, ledger, now);
  std::vector<NodeVictims> answer;
  for (std::size_t i = 0; i < args.nodes.size(); ++i) {
    if (!states[i]) continue;
    auto victims = decide(args.nodes[i], *states[i], pod->request, budgets);
    if (victims) answer.push_back(std::move(*victims));
  }
  return answer;
}

}  // namespace mgpu::extender
