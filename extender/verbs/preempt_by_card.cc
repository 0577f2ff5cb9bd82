#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "extender/verbs/victims_for_pod.h"

namespace mgpu::extender {
namespace {

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
  CardChoice(std::vector<NodeState> states, bool of_group, const VerbContext& context,
             SearchSteps& steps)
      : states_(std::move(states)), of_group_(of_group), context_(context), steps_(steps) {}

  // Gives the pod cards that are free, or soon will be, or else those of the cheapest victims on
  // one of the nodes. Nothing if there are none.
  std::optional<NominatedPlacement> place(const kube::Pod& sent, const PodRequest& pod) {
    VictimsForPod search(sent, pod, context_, steps_);
    std::vector<NodeState*> helpful;
    for (NodeState& state : states_) {
      if (steps_.ended()) return std::nullopt;
      if (context_.ledger.reader().gate_of(state.node.name.str(), sent.node_rules)) continue;
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

  static std::optional<NominatedPlacement> take_on(NodeState& state, const VictimsForPod& search) {
    auto placement = search.placement(state.node);
    if (placement) take(state.node, *placement);
    return placement;
  }

  std::optional<NominatedPlacement> take_cheapest(const std::vector<NodeState*>& states,
                                                  VictimsForPod& search, const PodRequest& pod) {
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
  SearchSteps& steps_;
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

// Those that need most first, since what is left for the others is smaller then. Empty if one of
// them may not preempt.
std::vector<Member> members_of(std::span<const kube::Pod> pods, const VerbContext& context) {
  std::vector<Member> members;
  for (const kube::Pod& sent : pods) {
    auto pod = read_pod_request(sent, context.options);
    if (!pod || pod->request.empty() || sent.never_preempts || sent.affinity) return {};
    if (!pod->pod.group.empty() && !asks_only_for_resources(sent, context.options.contract))
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
    for (const NodeName& node : ledger.reservations().nodes_of_group(group)) names.insert(node);
  std::vector<NodeVictims> proposed;
  for (const NodeName& name : names) proposed.push_back({name, {}, 0});
  return proposed;
}

std::vector<NodeState> states_of(const std::vector<NodeVictims>& nodes, const DecidedPod& preemptor,
                                 const Spared& spared, const VerbContext& context, Instant now) {
  std::vector<NodeState> states;
  for (auto& state : read_nodes(nodes, preemptor, context.ledger.reader(), now)) {
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
                                             const Spared& spared, std::uint64_t answers,
                                             const VerbContext& context, Instant now) {
  const std::vector<Member> members = members_of(pods, context);
  if (members.empty()) return std::nullopt;
  DecidedPod preemptor = members.front().pod.pod;
  for (const Member& member : members)
    preemptor.priority = std::min(preemptor.priority, member.pod.pod.priority);
  const auto containers = [](const Member& one) { return one.pod.request.containers.size(); };
  SearchSteps steps(std::ranges::max_element(members, {}, containers)->pod, context, now);
  const auto candidates = nodes_for(nodes, preemptor.group, context.ledger);
  CardChoice choice(states_of(candidates, preemptor, spared, context, now),
                    !preemptor.group.empty(), context, steps);
  ChosenVictims chosen;
  std::vector<Reservations::Reservation> reservations;
  for (const Member& member : members) {
    auto placement = choice.place(*member.sent, member.pod);
    if (!placement) return std::nullopt;
    chosen.pods.push_back({*member.sent, placement->node});
    reservations.push_back({member.pod.pod, *std::move(placement)});
  }
  chosen.victims = choice.take_victims();
  if (chosen.victims.empty()) return std::nullopt;
  const auto reserved = context.ledger.reservations().reserve_all(
      std::move(reservations), answers, now + context.options.nomination_life,
      now + kNominationSeen);
  if (!reserved) return std::nullopt;
  chosen.answers = *reserved;
  return chosen;
}

}  // namespace mgpu::extender
