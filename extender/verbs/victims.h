// Which pods are evicted on one node for a pod that preempts. Pure.
//
// kube-scheduler proposes victims with which every filter of its own passes: CPU, memory, number of
// pods and the sums of the cards, but also ports, volumes and rules about other pods, which are not
// known here. So the proposal stands if it frees the cards. If it does not, victims are added to
// it. A proposed victim is only left out if nothing but resources can be the reason for it, and if
// the resources suffice without it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/contract/gpu_request.h"
#include "common/kube/objects/objects.h"
#include "extender/placement/cluster.h"
#include "extender/placement/node_resources.h"
#include "extender/placement/preemption/preemption.h"
#include "extender/wire/wire.h"

namespace mgpu::extender {

class DisruptionBudgets;

// The pod that preempts.
struct Preemptor {
  const GpuRequest& request;
  NodeResources resources;      // what it requests beside cards
  bool only_resources = false;  // kube-scheduler compares nothing else of it with the node's pods
};

// A pod on the node.
struct NodePod {
  PodUid uid;
  std::string name;  // of those that hold cards
  std::string name_space;
  kube::StringMap labels;
  std::string group{};  // its PodGroup, as "team/train"; of those that hold cards
  bool holds_cards = false;
  bool evictable = false;  // of lower priority, and bound or proposed
  bool terminating = false;
  bool ends_soon = false;      // Claim::ends_soon
  bool only_resources = true;  // it has no rule that keeps the preemptor from its node
  Candidate candidate;
};

// A copy, so that the decision does not hold the ledger's lock.
struct NodeState {
  Node node;
  std::vector<NodePod> pods;  // those that hold cards, and the proposed victims that are known
};

// The victims, those with cards first, the most important first; they free enough cards, and as far
// as the proposal does not show it, enough CPU, memory and places for pods. Of sets that contain
// the pods which must be evicted it is the cheapest (preemption.h); beyond the bound of steps it is
// one of which every victim is needed. Empty if no such set is found, or only an empty one. The
// steps are taken from `steps`, as those of choose_victims.
std::optional<NodeVictims> choose_on_node(const NodeVictims& proposed, const NodeState& state,
                                          const Preemptor& pod, const DisruptionBudgets& budgets,
                                          SearchBudget& steps);

}  // namespace mgpu::extender
