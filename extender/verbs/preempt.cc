#include <algorithm>
#include <optional>
#include <utility>

#include "extender/placement/holds.h"
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
          .name_space = claim.pod.name_space,
          .labels = claim.labels,
          .holds_cards = true,
          .evictable = held.phase == Phase::kBound && claim.priority < preemptor_priority,
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

}  // namespace

std::vector<NodeVictims> preempt(const PreemptionArgs& args, const VerbContext& context,
                                 Instant now) {
  const Settings& settings = context.settings;
  const auto pod = read_pod_request(args.pod, settings);
  if (!pod) return {};
  if (pod->request.empty()) return args.nodes;
  const auto nodes = only_local(args.nodes, context.ledger, now);
  if (!args.pod.node_name.empty()) return only_on(NodeName(args.pod.node_name), nodes);
  const Preemptor preemptor{pod->request, pod->resources,
                            asks_only_for_resources(args.pod, settings.contract)};
  const auto price_snapshot = context.prices.current();
  auto states = read_nodes(nodes, pod->pod, context.ledger, now);
  std::vector<NodeVictims> answer;
  std::vector<NominatedPlacement> placements;
  SearchBudget steps = context.ledger.preemption_steps(pod->request, pod->pod, now);
  const std::uint32_t given = steps.steps;
  for (std::size_t i = 0; i < nodes.size() && steps.steps > 0; ++i) {
    if (!states[i] || context.ledger.searches_ended()) continue;
    set_violations(*states[i], context.budgets);
    auto victims = choose_on_node(nodes[i], *states[i], preemptor, context.budgets, steps);
    if (!victims) continue;
    auto placement = placement_after(*victims, *std::move(states[i]), *pod, price_snapshot.get());
    if (placement) placements.push_back(*std::move(placement));
    answer.push_back(*std::move(victims));
  }
  context.ledger.charge_steps(pod->request, pod->pod, given - steps.steps, now);
  context.ledger.offer_nomination(pod->pod, std::move(placements),
                                  NodeName(args.pod.nominated_node),
                                  now + settings.nomination_life);
  return answer;
}

}  // namespace mgpu::extender
