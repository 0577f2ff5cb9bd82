#include "extender/verbs/victims_for_pod.h"

#include <algorithm>

#include "extender/placement/holds.h"
#include "extender/placement/limits.h"
#include "extender/placement/place.h"

namespace mgpu::extender {
namespace {

NodePod holder_of(const ClaimView& held, std::int32_t preemptor_priority) {
  const Claim& claim = held.claim;
  return {.uid = claim.uid,
          .name = claim.pod.name,
          .name_space = claim.pod.name_space,
          .labels = claim.labels,
          .group = claim.in_pod_group ? claim.group : "",
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
  // If sets cost the same, the same one is chosen again when kube-scheduler calls again, whatever
  // has changed meanwhile.
  std::ranges::sort(state.pods, {}, &NodePod::uid);
  for (const PodUid& uid : proposed.victims) {
    // A pod whose bind is not answered here is bound for kube-scheduler, which does not ask again
    // once it is.
    const auto held = std::ranges::find(state.pods, uid, &NodePod::uid);
    if (held != state.pods.end()) {
      held->evictable = held->candidate.priority < preemptor.priority;
      continue;
    }
    const auto pod = view.non_gpu_on(proposed.node.str(), uid);
    if (pod) state.pods.push_back(other_pod_of(*pod));
  }
  return state;
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

}  // namespace

std::vector<std::optional<NodeState>> read_nodes(const std::vector<NodeVictims>& nodes,
                                                 const DecidedPod& preemptor, LedgerReader& ledger,
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

Node after(const NodeVictims& victims, const NodeState& state) {
  Node node = state.node;
  for (const NodePod& one : state.pods) {
    const bool evicted = std::ranges::find(victims.victims, one.uid) != victims.victims.end();
    if (evicted) evict(node, one.candidate);
  }
  return node;
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

SearchSteps::SearchSteps(const PodRequest& pod, const VerbContext& context, Instant now)
    : left(context.ledger.decisions().preemption_steps(pod.request, pod.pod, now)),
      pod_(pod),
      decisions_(context.ledger.decisions()),
      now_(now),
      given_(left.steps) {}

SearchSteps::~SearchSteps() {
  decisions_.charge_steps(pod_.request, pod_.pod, given_ - left.steps, now_);
}

bool SearchSteps::ended() const {
  return left.steps == 0 || decisions_.searches_ended();
}

VictimsForPod::VictimsForPod(const kube::Pod& sent, const PodRequest& pod,
                             const VerbContext& context, SearchSteps& steps)
    : pod_(pod),
      context_(context),
      preemptor_{pod.request, pod.resources,
                 asks_only_for_resources(sent, context.options.contract)},
      price_snapshot_(context.prices.current()),
      steps_(steps) {}

std::optional<NodeVictims> VictimsForPod::victims(const NodeVictims& proposed, NodeState& state) {
  if (steps_.ended()) return std::nullopt;
  set_violations(state, context_.budgets);
  return choose_on_node(proposed, state, preemptor_, context_.budgets, steps_.left);
}

std::optional<Reason> VictimsForPod::why_not(const Node& node) {
  SearchBudget own{std::min(kPlacementStepsMax, steps_.left.steps)};
  const std::uint32_t given = own.steps;
  const auto reason = extender::why_not(node, pod_.request, own);
  steps_.left.spend(given - own.steps);
  return reason;
}

std::optional<NominatedPlacement> VictimsForPod::placement(const Node& node) const {
  const auto placement = place_on(node, pod_, price_snapshot_.get());
  if (!placement) return std::nullopt;
  return NominatedPlacement{node.name, holds(node, pod_.request, *placement), pod_.resources};
}

}  // namespace mgpu::extender
