#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "extender/ledger/disruption_budgets.h"
#include "extender/placement/preemption/preemption.h"
#include "extender/verbs/pod_request.h"
#include "extender/verbs/verbs.h"

// kube-scheduler 1.36 fails the whole preemption over one node without victims (callExtenders in
// pkg/scheduler/framework/preemption/preemption.go), so no node is ever answered without: where the
// cards are free already, its own proposal stands, for it has reasons of its own, such as CPU.

namespace mgpu::extender {
namespace {

// A pod on the node that holds cards.
struct Holder {
  PodUid uid;
  std::string space;
  kube::StringMap labels;
  bool evictable = false;  // bound, and of lower priority; assumed pods are not in the API yet
  Candidate candidate;
};

// What a decision about one node needs, copied so that it is made without the ledger's lock.
struct NodeState {
  Node node;
  std::vector<Holder> holders;
};

Holder holder_of(const ClaimView& view, std::int32_t below) {
  const Claim& claim = view.claim;
  Holder holder{claim.uid, claim.pod.space, claim.labels, false, {}};
  holder.evictable = view.phase == Phase::kBound && claim.priority < below;
  holder.candidate = {claim.priority, claim.start_time, false, view.holds};
  return holder;
}

std::optional<NodeState> state_of(const View& view, const NodeName& name, std::int32_t below) {
  const Node* node = view.find(name.str());
  if (node == nullptr) return std::nullopt;
  NodeState state{*node, {}};
  for (const ClaimView* claim : view.claims_on(name.str())) {
    state.holders.push_back(holder_of(*claim, below));
  }
  return state;
}

std::vector<std::optional<NodeState>> gather(const PreemptionArgs& args, Ledger& ledger,
                                             Instant now) {
  std::vector<std::optional<NodeState>> states;
  ledger.read(now, [&](const View& view) {
    for (const NodeVictims& node : args.nodes) {
      states.push_back(state_of(view, node.node, args.pod.priority));
    }
  });
  return states;
}

// The more important first, as kube-scheduler orders victims and reads them (MoreImportantPod).
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
  for (const Holder* victim : victims) labels.push_back({&victim->space, &victim->labels});
  return std::ranges::count(budgets.violations(labels), true);
}

// The holders to evict, the most important first. Whether an eviction breaks a budget is asked of
// each alone: which others go with it is not known before the choice.
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

// Victims that hold no cards stay: kube-scheduler wants them for something else.
NodeVictims replace_holders(const NodeVictims& proposed, const NodeState& state,
                            const std::vector<const Holder*>& victims,
                            const DisruptionBudgets& budgets) {
  std::unordered_set<PodUid> holders;
  for (const Holder& holder : state.holders) holders.insert(holder.uid);
  NodeVictims answer{proposed.node, {}, 0};
  for (const Holder* victim : victims) answer.victims.push_back(victim->uid);
  for (const PodUid& uid : proposed.victims) {
    if (!holders.contains(uid)) answer.victims.push_back(uid);
  }
  if (same_pods(answer.victims, proposed.victims)) return proposed;
  answer.pdb_violations = count_violations(victims, budgets);
  return answer;
}

std::optional<NodeVictims> decide(const NodeVictims& proposed, const NodeState& state,
                                  const GpuRequest& request, const DisruptionBudgets& budgets) {
  const auto victims = choose(state, request, budgets);
  if (!victims) return std::nullopt;
  if (!victims->empty()) return replace_holders(proposed, state, *victims, budgets);
  if (proposed.victims.empty()) return std::nullopt;
  return proposed;
}

}  // namespace

std::vector<NodeVictims> preempt(const PreemptionArgs& args, Ledger& ledger,
                                 const DisruptionBudgets& budgets, const Settings& settings,
                                 Instant now) {
  const auto pod = read_pod_request(args.pod, settings);
  if (!pod) return {};
  if (pod->request.empty()) return args.nodes;
  const auto states = gather(args, ledger, now);
  std::vector<NodeVictims> answer;
  for (std::size_t i = 0; i < args.nodes.size(); ++i) {
    if (!states[i]) continue;
    auto victims = decide(args.nodes[i], *states[i], pod->request, budgets);
    if (victims) answer.push_back(std::move(*victims));
  }
  return answer;
}

}  // namespace mgpu::extender
