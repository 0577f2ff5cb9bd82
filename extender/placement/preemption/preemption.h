// Which pods to evict so that a pod fits a node's cards: the set of the lowest cost, in the order
// of kube-scheduler (kubernetes pkg/scheduler/framework/preemption/preemption.go,
// pickOneNodeForPreemption): fewest PDB violations, then the lowest highest priority, then the
// fewest victims, then the lowest sum of priorities, then those that started last.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/contract/gpu_request.h"
#include "extender/placement/cluster.h"
#include "extender/placement/holds.h"
#include "extender/placement/limits.h"
#include "extender/placement/node_resources.h"
#include "extender/placement/place.h"

namespace mgpu::extender {

// A pod that may be evicted, which has a lower priority than the preemptor.
struct Candidate {
  std::int32_t priority = 0;
  std::string start_time;      // RFC 3339; pods that started later are evicted first
  bool breaks_budget = false;  // its eviction would violate a PodDisruptionBudget
  std::vector<CardHold> holds;
  NodeResources resources{};  // the CPU and main memory that it requests
};

struct Eviction {
  // Indices into the candidates, ascending; none if the pod fits without an eviction.
  std::vector<std::size_t> victims;
  std::size_t budget_violations = 0;
};

// Empty if the pod does not fit even with all candidates evicted. The search is exact up to
// kPlacementStepsMax; beyond that the result is a set of which every victim is needed.
//
// With `resources`, which is what the pod requests beside cards, the victims also free enough CPU,
// main memory and places for pods. REQUIRES: then the node's allocatable and pods_allowed are
// known. The steps are taken from `budget`, which bounds the decisions about several nodes: this
// one does not depend on how many are left.
std::optional<Eviction> choose_victims(const Node& node, const GpuRequest& request,
                                       std::span<const Candidate> candidates,
                                       const std::optional<NodeResources>& resources,
                                       SearchBudget& budget);

// Whether the pod fits the node's CPU, main memory and number of pods. A node of which these are
// not known has none left.
bool has_resources_for(const Node& node, const NodeResources& resources);

// Removes the pod from the totals of a copy of its node.
void evict(Node& node, const Candidate& pod);

}  // namespace mgpu::extender
