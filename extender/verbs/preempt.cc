#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "extender/placement/holds.h"
#include "extender/placement/limits.h"
#include "extender/placement/place.h"
#include "extender/placement/reason.h"
#include "extender/verbs/pod_request.h"
#include "extender/verbs/verbs.h"
#include "extender/verbs/victims.h"

// kube-scheduler 1.36 fails the whole preemption when one node of the answer has no victims
// (callExtenders in pkg/scheduler/framework/preemption/preemption.go). So no node is answered
// without victims.

namespace mgpu::extender {
namespace {

NodePod holder_of(const ClaimView& held, std::int32_t preemptor_priority) {
  const Claim& claim = held.claim;
  return {.uid = claim.uid,
          .name = claim.pod.name,
          .name_space = claim.pod.name_space,
          .labels = claim.labels,
          .holds_cards = true,
          .evictable = held.phase == Phase::kBound && claim.priority < preemptor_priority,
          .terminating = claim.terminating,
          .ends_soon = claim.ends_soon,
          .only_resources = !claim.anti_affinity,
          .candidate = {claim.priority, claim.start_time, false, held.holds, claim.resources}};
}

// kube-scheduler only proposes pods of lower priority, which is not known for pods without cards.
NodePod other_pod_of(const NonGpuPod& pod) {
  NodePod other;
  other.uid = pod.uid;
  other.evictable = true;
  other.only_resources = !pod.anti_affinity;
  other.candidate.resources = pod.resources;
  return other;
}

std::optional<NodeState> read_node(const View& view, const NodeVictims& proposed,
                                   const DecidedPod& preemptor) {
  std::optional<Node> node = view.find_for(proposed.node.str(), preemptor);
  if (!node) return std::nullopt;
  NodeState state{*std::move(node), {}};
  for (const ClaimView* held : view.claims_on(proposed.node.str()))
    state.pods.push_back(holder_of(*held, preemptor.priority));
  // Of sets that cost the same, the same one is chosen again when kube-scheduler calls again,
  // whatever has changed meanwhile.
  std::ranges::sort(state.pods, {}, &NodePod::uid);
  for (const PodUid& uid : proposed.victims) {
    const auto pod = view.non_gpu_on(proposed.node.str(), uid);
    if (pod) state.pods.push_back(other_pod_of(*pod));
  }
  return state;
}

// kube-scheduler 1.37 proposes the members of a group on all nodes as one victim, but finds the
// victims of an answer only on the node itself, and fails the whole preemption where one is not
// there (convertToVictims in pkg/scheduler/extender.go). Members on other nodes stay.
std::vector<NodeVictims> only_local(std::vector<NodeVictims> nodes, Ledger& ledger, Instant now) {
  for (NodeVictims& one : nodes) {
    ledger.read(now, [&](const View& view) {
      std::erase_if(one.victims,
                    [&](const PodUid& uid) { return view.elsewhere(one.node.str(), uid); });
    });
  }
  return nodes;
}

// One entry for each proposed node; nothing where the node is unknown.
std::vector<std::optional<NodeState>> read_nodes(const std::vector<NodeVictims>& nodes,
                                                 const DecidedPod& preemptor, Ledger& ledger,
                                                 Instant now) {
  std::vector<std::optional<NodeState>> states;
  while (states.size() < nodes.size()) {
    const std::size_t end = std::min(nodes.size(), states.size() + kNodeCopiesMax);
    ledger.read(now, [&](const View& view) {
      while (states.size() < end)
        states.push_back(read_node(view, nodes[states.size()], preemptor));
    });
  }
  return states;
}

// Each pod is checked against the budgets alone, since the other victims are not known before the
// choice.
void set_violations(NodeState& state, const DisruptionBudgets& budgets) {
  for (NodePod& pod : state.pods) {
    if (!pod.holds_cards || !pod.evictable) continue;
    pod.candidate.breaks_budget = budgets.violations({{&pod.name_space, &pod.labels}}).front();
  }
}

bool only_known_amounts(const kube::StringMap& amounts, const Contract& contract) {
  return std::ranges::all_of(amounts, [&](const auto& amount) {
    const std::string& resource = amount.first;
    return resource == "cpu" || resource == "memory" || resource == contract.core_resource ||
           resource == contract.memory_resource;
  });
}

bool asks_only_for_resources(const kube::Pod& pod, const Contract& contract) {
  const auto plain = [&](const kube::Container& container) {
    return !container.host_port && only_known_amounts(container.limits, contract) &&
           only_known_amounts(container.requests, contract);
  };
  return !pod.constrained && only_known_amounts(pod.overhead, contract) &&
         std::ranges::all_of(pod.containers, plain) &&
         std::ranges::all_of(pod.init_containers, plain);
}

// What the pod is to get on the node after the evictions; nothing where no placement is found.
std::optional<NominatedPlacement> placement_after(const NodeVictims& victims, NodeState state,
                                                  const PodRequest& pod,
                                                  const PriceSnapshot* price_snapshot) {
  for (const NodePod& one : state.pods) {
    const bool evicted = std::ranges::find(victims.victims, one.uid) != victims.victims.end();
    if (evicted) evict(state.node, one.candidate);
  }
  const auto placement = place_on(state.node, pod, price_snapshot);
  if (!placement) return std::nullopt;
  return NominatedPlacement{victims.node, holds(state.node, pod.request, *placement),
                            pod.resources};
}

std::vector<NodeVictims> only_on(const NodeName& node, std::vector<NodeVictims> nodes) {
  std::erase_if(nodes,
                [&](const NodeVictims& one) { return one.node != node || one.victims.empty(); });
  return nodes;
}

// The search for victims for one pod, on several nodes.
class Search {
 public:
  Search(const kube::Pod& sent, const PodRequest& pod, const VerbContext& context, Instant now)
      : pod_(pod),
        context_(context),
        now_(now),
        preemptor_{pod.request, pod.resources,
                   asks_only_for_resources(sent, context.settings.contract)},
        price_snapshot_(context.prices.current()),
        steps_(context.ledger.preemption_steps(pod.request, pod.pod, now)),
        given_(steps_.steps) {}
  ~Search() { context_.ledger.charge_steps(pod_.request, pod_.pod, given_ - steps_.steps, now_); }
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  std::optional<NodeVictims> victims(const NodeVictims& proposed, NodeState& state) {
    if (steps_.steps == 0 || context_.ledger.searches_ended()) return std::nullopt;
    set_violations(state, context_.budgets);
    return choose_on_node(proposed, state, preemptor_, context_.budgets, steps_);
  }
  std::optional<NominatedPlacement> placement(const NodeVictims& victims, NodeState state) const {
    return placement_after(victims, std::move(state), pod_, price_snapshot_.get());
  }

 private:
  const PodRequest& pod_;
  const VerbContext& context_;
  const Instant now_;
  const Preemptor preemptor_;
  const std::shared_ptr<const PriceSnapshot> price_snapshot_;
  SearchBudget steps_;
  const std::uint32_t given_;
};

// --- preemption by card --------------------------------------------------------------------------

// Those of `nodes` on which an eviction can help, and that have not been cordoned or tainted since.
// None where the pod fits on one of them.
std::vector<NodeVictims> refusing_nodes(const std::vector<std::string>& nodes,
                                        const kube::NodeRules& rules, const PodRequest& pod,
                                        Ledger& ledger, Instant now) {
  const std::vector<std::string_view> names(nodes.begin(), nodes.end());
  const auto reasons = ledger.why_not(names, pod.request, now, pod.pod);
  std::vector<NodeVictims> refusing;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!reasons[i]) return {};
    if (eviction_can_help(*reasons[i]) && !ledger.gate_of(nodes[i], rules))
      refusing.push_back({NodeName(nodes[i]), {}, 0});
  }
  return refusing;
}

// The policy of the extender's rights refuses the deletion of pods of the system.
constexpr std::int32_t kHighestUserPriority = 1'000'000'000;

void spare(NodeState& state, const std::set<PodUid>& spared) {
  for (NodePod& pod : state.pods) {
    if (pod.candidate.priority > kHighestUserPriority || spared.contains(pod.uid))
      pod.evictable = false;
  }
}

// Removes the pods that are terminating: none of them is a victim, and those that end soon hold
// nothing. Returns whether the pod fits then.
bool fits_after_terminating(NodeState& state, const GpuRequest& request) {
  std::erase_if(state.pods, [&state](const NodePod& pod) {
    if (pod.ends_soon) evict(state.node, pod.candidate);
    return pod.terminating;
  });
  SearchBudget steps{kPlacementStepsMax};
  return !why_not(state.node, request, steps);
}

// What the eviction of some pods costs, in the order of pickOneNodeForPreemption of kube-scheduler.
struct Cost {
  std::int64_t violations = 0;
  std::int32_t highest = std::numeric_limits<std::int32_t>::min();
  std::size_t pods = 0;
  std::int64_t priorities = 0;
  std::string start;  // of the most important pod; the later, the cheaper

  bool operator<(const Cost& other) const {
    return std::tie(violations, highest, pods, priorities, other.start) <
           std::tie(other.violations, other.highest, other.pods, other.priorities, start);
  }
};

Cost cost_of(const NodeVictims& victims, const NodeState& state) {
  Cost cost{.violations = victims.pdb_violations, .pods = victims.victims.size(), .start = {}};
  for (const PodUid& uid : victims.victims) {
    const Candidate& pod = std::ranges::find(state.pods, uid, &NodePod::uid)->candidate;
    // A pod that has not started is the last to have started.
    const std::string start = pod.start_time.empty() ? "~" : pod.start_time;
    if (pod.priority > cost.highest) cost.start = start;
    if (pod.priority == cost.highest) cost.start = std::min(cost.start, start);
    cost.highest = std::max(cost.highest, pod.priority);
    cost.priorities += pod.priority;
  }
  return cost;
}

struct Choice {
  Cost cost;
  NodeVictims victims;
  NodeState state;
};

// The cheapest victims on one of the nodes. Empty where the pod only has to wait for pods that are
// terminating.
std::optional<Choice> cheapest(Search& search, const std::vector<NodeVictims>& nodes,
                               std::vector<std::optional<NodeState>> states,
                               const GpuRequest& request) {
  for (auto& state : states)
    if (state && fits_after_terminating(*state, request)) return std::nullopt;
  std::optional<Choice> best;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!states[i]) continue;
    auto victims = search.victims(nodes[i], *states[i]);
    if (!victims) continue;
    Cost cost = cost_of(*victims, *states[i]);
    if (best && !(cost < best->cost)) continue;
    best = Choice{std::move(cost), *std::move(victims), *std::move(states[i])};
  }
  return best;
}

ChosenVictims chosen_of(const Choice& choice) {
  ChosenVictims chosen{choice.victims.node, {}};
  for (const PodUid& uid : choice.victims.victims) {
    const auto pod = std::ranges::find(choice.state.pods, uid, &NodePod::uid);
    chosen.victims.push_back({{pod->name_space, pod->name}, uid});
  }
  return chosen;
}

}  // namespace

std::optional<ChosenVictims> preempt_by_card(const kube::Pod& sent,
                                             const std::vector<std::string>& nodes,
                                             const std::set<PodUid>& spared,
                                             const VerbContext& context, Instant now) {
  const auto pod = read_pod_request(sent, context.settings);
  if (!pod || pod->request.empty() || !pod->pod.group.empty()) return std::nullopt;
  if (sent.never_preempts || sent.affinity) return std::nullopt;
  const auto refusing = refusing_nodes(nodes, sent.node_rules, *pod, context.ledger, now);
  Search search(sent, *pod, context, now);
  auto states = read_nodes(refusing, pod->pod, context.ledger, now);
  for (auto& state : states)
    if (state) spare(*state, spared);
  auto best = cheapest(search, refusing, std::move(states), pod->request);
  if (!best) return std::nullopt;
  auto placement = search.placement(best->victims, best->state);
  if (!placement) return std::nullopt;
  context.ledger.reserve(pod->pod, *std::move(placement), NodeName(),
                         now + context.settings.nomination_life, now + kNominationSeen);
  return chosen_of(*best);
}

std::vector<NodeVictims> preempt(const PreemptionArgs& args, const VerbContext& context,
                                 Instant now) {
  const Settings& settings = context.settings;
  const auto pod = read_pod_request(args.pod, settings);
  if (!pod) return {};
  if (pod->request.empty()) return args.nodes;
  const auto nodes = only_local(args.nodes, context.ledger, now);
  if (!args.pod.node_name.empty()) return only_on(NodeName(args.pod.node_name), nodes);
  Search search(args.pod, *pod, context, now);
  auto states = read_nodes(nodes, pod->pod, context.ledger, now);
  std::vector<NodeVictims> answer;
  std::vector<NominatedPlacement> placements;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!states[i]) continue;
    auto victims = search.victims(nodes[i], *states[i]);
    if (!victims) continue;
    auto placement = search.placement(*victims, *std::move(states[i]));
    if (placement) placements.push_back(*std::move(placement));
    answer.push_back(*std::move(victims));
  }
  context.ledger.offer_nomination(pod->pod, std::move(placements),
                                  NodeName(args.pod.nominated_node),
                                  now + settings.nomination_life);
  return answer;
}

}  // namespace mgpu::extender
