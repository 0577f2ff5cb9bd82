#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
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
          .group = claim.pod_group.empty() ? "" : claim.pod.name_space + "/" + claim.pod_group,
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

Node after(const NodeVictims& victims, const NodeState& state) {
  Node node = state.node;
  for (const NodePod& one : state.pods) {
    const bool evicted = std::ranges::find(victims.victims, one.uid) != victims.victims.end();
    if (evicted) evict(node, one.candidate);
  }
  return node;
}

std::vector<NodeVictims> only_on(const NodeName& node, std::vector<NodeVictims> nodes) {
  std::erase_if(nodes,
                [&](const NodeVictims& one) { return one.node != node || one.victims.empty(); });
  return nodes;
}

// The steps of one call, for all its nodes and pods. They are charged as those of `pod`.
class Steps {
 public:
  Steps(const PodRequest& pod, const VerbContext& context, Instant now)
      : left(context.ledger.preemption_steps(pod.request, pod.pod, now)),
        pod_(pod),
        ledger_(context.ledger),
        now_(now),
        given_(left.steps) {}
  ~Steps() { ledger_.charge_steps(pod_.request, pod_.pod, given_ - left.steps, now_); }
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  bool ended() const { return left.steps == 0 || ledger_.searches_ended(); }

  SearchBudget left;

 private:
  const PodRequest& pod_;
  Ledger& ledger_;
  const Instant now_;
  const std::uint32_t given_;
};

// The search for victims for one pod, on several nodes.
class Search {
 public:
  Search(const kube::Pod& sent, const PodRequest& pod, const VerbContext& context, Steps& steps)
      : pod_(pod),
        context_(context),
        preemptor_{pod.request, pod.resources,
                   asks_only_for_resources(sent, context.settings.contract)},
        price_snapshot_(context.prices.current()),
        steps_(steps) {}

  std::optional<NodeVictims> victims(const NodeVictims& proposed, NodeState& state) {
    if (steps_.ended()) return std::nullopt;
    set_violations(state, context_.budgets);
    return choose_on_node(proposed, state, preemptor_, context_.budgets, steps_.left);
  }
  std::optional<Reason> why_not(const Node& node) {
    SearchBudget own{std::min(kPlacementStepsMax, steps_.left.steps)};
    const std::uint32_t given = own.steps;
    const auto reason = extender::why_not(node, pod_.request, own);
    steps_.left.spend(given - own.steps);
    return reason;
  }
  std::optional<NominatedPlacement> placement(const Node& node) const {
    const auto placement = place_on(node, pod_, price_snapshot_.get());
    if (!placement) return std::nullopt;
    return NominatedPlacement{node.name, holds(node, pod_.request, *placement), pod_.resources};
  }

 private:
  const PodRequest& pod_;
  const VerbContext& context_;
  const Preemptor preemptor_;
  const std::shared_ptr<const PriceSnapshot> price_snapshot_;
  Steps& steps_;
};

// --- preemption by card --------------------------------------------------------------------------

// The policy of the extender's rights refuses the deletion of pods of the system.
constexpr std::int32_t kHighestUserPriority = 1'000'000'000;

bool is_spared(const std::string& group, const Spared& spared) {
  if (group.empty()) return false;
  const auto known = spared.groups.find(group);
  return known == spared.groups.end() ? spared.other_groups : known->second;
}

void spare(NodeState& state, const Spared& spared) {
  for (NodePod& pod : state.pods) {
    if (pod.candidate.priority > kHighestUserPriority || spared.pods.contains(pod.uid) ||
        is_spared(pod.group, spared))
      pod.evictable = false;
  }
}

// Removes the pods that are terminating: none of them is a victim, and those that end soon hold
// nothing.
void end_terminating(NodeState& state) {
  std::erase_if(state.pods, [&state](const NodePod& pod) {
    if (pod.ends_soon) evict(state.node, pod.candidate);
    return pod.terminating;
  });
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

void take(Node& node, const NominatedPlacement& placement) {
  for (const CardHold& hold : placement.holds) node.find(hold.card)->used += hold.share;
  node.resources_used += placement.resources;
  ++node.pods_counted;
}

// The choice for the pods of a group, or for one that is bound alone. What one of them gets, and
// whom it evicts, counts for the next.
class CardChoice {
 public:
  CardChoice(std::vector<NodeState> states, bool of_group, const VerbContext& context, Steps& steps)
      : states_(std::move(states)), of_group_(of_group), context_(context), steps_(steps) {}

  // Gives the pod cards that are free, or soon will be, or else those of the cheapest victims on
  // one of the nodes. Nothing where there are none.
  std::optional<NominatedPlacement> place(const kube::Pod& sent, const PodRequest& pod) {
    Search search(sent, pod, context_, steps_);
    std::vector<NodeState*> helpful;
    for (NodeState& state : states_) {
      if (steps_.ended()) return std::nullopt;
      if (context_.ledger.gate_of(state.node.name.str(), sent.node_rules)) continue;
      const auto reason = search.why_not(state.node);
      if (!reason && has_room(state.node, pod)) return take_on(state, search);
      if (!reason || eviction_can_help(*reason)) helpful.push_back(&state);
    }
    return take_cheapest(helpful, search, pod);
  }

  std::vector<ChosenVictims::Victim> take_victims() { return std::move(victims_); }

 private:
  // kube-scheduler has shown that one pod has room beside cards. About a group it asks without all
  // pods of lower priority (podgrouppreemption.go).
  bool has_room(const Node& node, const PodRequest& pod) const {
    return !of_group_ || has_resources_for(node, pod.resources);
  }

  static std::optional<NominatedPlacement> take_on(NodeState& state, const Search& search) {
    auto placement = search.placement(state.node);
    if (placement) take(state.node, *placement);
    return placement;
  }

  std::optional<NominatedPlacement> take_cheapest(const std::vector<NodeState*>& states,
                                                  Search& search, const PodRequest& pod) {
    NodeState* best = nullptr;
    NodeVictims victims;
    Cost least;
    for (NodeState* state : states) {
      auto found = search.victims({state->node.name, {}, 0}, *state);
      if (!found || !has_room(after(*found, *state), pod)) continue;
      Cost cost = cost_of(*found, *state);
      if (best != nullptr && !(cost < least)) continue;
      best = state;
      victims = *std::move(found);
      least = std::move(cost);
    }
    if (best == nullptr) return std::nullopt;
    evict_on(*best, victims);
    return take_on(*best, search);
  }

  void evict_on(NodeState& state, const NodeVictims& victims) {
    state.node = after(victims, state);
    for (const PodUid& uid : victims.victims) {
      const auto pod = std::ranges::find(state.pods, uid, &NodePod::uid);
      victims_.push_back({{pod->name_space, pod->name}, uid, state.node.name, pod->group});
      state.pods.erase(pod);
    }
  }

  std::vector<NodeState> states_;
  const bool of_group_;
  const VerbContext& context_;
  Steps& steps_;
  std::vector<ChosenVictims::Victim> victims_;
};

struct Member {
  const kube::Pod* sent;
  PodRequest pod;
};

std::int64_t cores(const PodRequest& pod) {
  std::int64_t sum = 0;
  for (const ContainerRequest& container : pod.request.containers)
    sum += std::int64_t{container.cards} * container.per_card.core.value();
  return sum;
}

// Those that need most first, since what is left for the others is smaller then. Empty where one of
// them may not preempt.
std::vector<Member> members_of(std::span<const kube::Pod> pods, const VerbContext& context) {
  std::vector<Member> members;
  for (const kube::Pod& sent : pods) {
    auto pod = read_pod_request(sent, context.settings);
    if (!pod || pod->request.empty() || sent.never_preempts || sent.affinity) return {};
    if (!pod->pod.group.empty() && !asks_only_for_resources(sent, context.settings.contract))
      return {};
    pod->pod.for_group = true;
    members.push_back({&sent, *std::move(pod)});
  }
  std::ranges::stable_sort(members, std::ranges::greater(),
                           [](const Member& one) { return cores(one.pod); });
  return members;
}

// The nodes, and those that filter has answered for other pods of the group: kube-scheduler does
// not ask about these for the next one, where their sums do not suffice for both.
std::vector<NodeVictims> nodes_for(const std::vector<std::string>& nodes, const std::string& group,
                                   const Ledger& ledger) {
  std::set<NodeName> names;
  for (const std::string& node : nodes) names.insert(NodeName(node));
  if (!group.empty())
    for (const NodeName& node : ledger.nodes_of_group(group)) names.insert(node);
  std::vector<NodeVictims> proposed;
  for (const NodeName& name : names) proposed.push_back({name, {}, 0});
  return proposed;
}

std::vector<NodeState> states_of(const std::vector<NodeVictims>& nodes, const DecidedPod& preemptor,
                                 const Spared& spared, const VerbContext& context, Instant now) {
  std::vector<NodeState> states;
  for (auto& state : read_nodes(nodes, preemptor, context.ledger, now)) {
    if (!state) continue;
    spare(*state, spared);
    end_terminating(*state);
    states.push_back(*std::move(state));
  }
  return states;
}

}  // namespace

std::optional<ChosenVictims> preempt_by_card(std::span<const kube::Pod> pods,
                                             const std::vector<std::string>& nodes,
                                             const Spared& spared, const VerbContext& context,
                                             Instant now) {
  const std::vector<Member> members = members_of(pods, context);
  if (members.empty()) return std::nullopt;
  DecidedPod preemptor = members.front().pod.pod;
  for (const Member& member : members)
    preemptor.priority = std::min(preemptor.priority, member.pod.pod.priority);
  const auto containers = [](const Member& one) { return one.pod.request.containers.size(); };
  Steps steps(std::ranges::max_element(members, {}, containers)->pod, context, now);
  const auto candidates = nodes_for(nodes, preemptor.group, context.ledger);
  CardChoice choice(states_of(candidates, preemptor, spared, context, now),
                    !preemptor.group.empty(), context, steps);
  ChosenVictims chosen;
  std::vector<NominatedPlacement> placements;
  for (const Member& member : members) {
    auto placement = choice.place(*member.sent, member.pod);
    if (!placement) return std::nullopt;
    chosen.pods.push_back({*member.sent, placement->node});
    placements.push_back(*std::move(placement));
  }
  chosen.victims = choice.take_victims();
  if (chosen.victims.empty()) return std::nullopt;
  for (std::size_t i = 0; i < members.size(); ++i) {
    context.ledger.reserve(members[i].pod.pod, std::move(placements[i]), NodeName(),
                           now + context.settings.nomination_life, now + kNominationSeen);
  }
  return chosen;
}

std::vector<NodeVictims> preempt(const PreemptionArgs& args, const VerbContext& context,
                                 Instant now) {
  const Settings& settings = context.settings;
  const auto pod = read_pod_request(args.pod, settings);
  if (!pod) return {};
  if (pod->request.empty()) return args.nodes;
  const auto nodes = only_local(args.nodes, context.ledger, now);
  if (!args.pod.node_name.empty()) return only_on(NodeName(args.pod.node_name), nodes);
  Steps steps(*pod, context, now);
  Search search(args.pod, *pod, context, steps);
  auto states = read_nodes(nodes, pod->pod, context.ledger, now);
  std::vector<NodeVictims> answer;
  std::vector<NominatedPlacement> placements;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!states[i]) continue;
    auto victims = search.victims(nodes[i], *states[i]);
    if (!victims) continue;
    auto placement = search.placement(after(*victims, *states[i]));
    if (placement) placements.push_back(*std::move(placement));
    answer.push_back(*std::move(victims));
  }
  context.ledger.offer_nomination(pod->pod, std::move(placements),
                                  NodeName(args.pod.nominated_node),
                                  now + settings.nomination_life);
  return answer;
}

}  // namespace mgpu::extender
