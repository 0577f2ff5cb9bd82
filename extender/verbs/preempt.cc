#include <algorithm>
#include <utility>

#include "extender/verbs/victims_for_pod.h"

// kube-scheduler 1.36 fails the whole preemption when one node of the answer has no victims
// (callExtenders in pkg/scheduler/framework/preemption/preemption.go). So no node is answered
// without victims.

namespace mgpu::extender {
namespace {

// kube-scheduler 1.37 proposes the members of a group on all nodes as one victim, but finds the
// victims of an answer only on the node itself, and fails the whole preemption where one is not
// there (convertToVictims in pkg/scheduler/extender.go). Members on other nodes stay.
std::vector<NodeVictims> only_local(std::vector<NodeVictims> nodes, LedgerReader& ledger,
                                    Instant now) {
  for (NodeVictims& one : nodes) {
    ledger.read(now, [&](const View& view) {
      std::erase_if(one.victims,
                    [&](const PodUid& uid) { return view.elsewhere(one.node.str(), uid); });
    });
  }
  return nodes;
}

std::vector<NodeVictims> only_on(const NodeName& node, std::vector<NodeVictims> nodes) {
  std::erase_if(nodes,
                [&](const NodeVictims& one) { return one.node != node || one.victims.empty(); });
  return nodes;
}

// The pods of a group may have to be evicted together (disruptionMode), which kube-scheduler knows:
// none is added to those that it proposes.
void spare_groups(NodeState& state, const NodeVictims& proposed) {
  for (NodePod& pod : state.pods) {
    const bool added = std::ranges::find(proposed.victims, pod.uid) == proposed.victims.end();
    if (added && !pod.group.empty()) pod.evictable = false;
  }
}

}  // namespace

std::vector<NodeVictims> preempt(const PreemptionArgs& args, const VerbContext& context,
                                 Instant now) {
  const VerbOptions& options = context.options;
  const auto pod = read_pod_request(args.pod, options);
  if (!pod) return {};
  if (pod->request.empty()) return args.nodes;
  const auto nodes = only_local(args.nodes, context.ledger.reader(), now);
  if (!args.pod.node_name.empty()) return only_on(NodeName(args.pod.node_name), nodes);
  SearchSteps steps(*pod, context, now);
  VictimsForPod search(args.pod, *pod, context, steps);
  auto states = read_nodes(nodes, pod->pod, context.ledger.reader(), now);
  std::vector<NodeVictims> answer;
  std::vector<NominatedPlacement> placements;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!states[i]) continue;
    spare_groups(*states[i], nodes[i]);
    auto victims = search.victims(nodes[i], *states[i]);
    if (!victims) continue;
    auto placement = search.placement(after(*victims, *states[i]));
    if (placement) placements.push_back(*std::move(placement));
    answer.push_back(*std::move(victims));
  }
  context.ledger.reservations().offer_nomination(pod->pod, std::move(placements),
                                                 NodeName(args.pod.nominated_node),
                                                 now + options.nomination_life);
  return answer;
}

}  // namespace mgpu::extender
