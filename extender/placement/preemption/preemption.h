// Whom to evict so that a pod fits a node's cards: the set that costs least, by Kubernetes' own
// order (kubernetes pkg/scheduler/framework/preemption/preemption.go, pickOneNodeForPreemption):
// fewest PDB violations, then the lowest highest priority, then the fewest victims, then the
// lowest sum of priorities, then those that started last.
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

namespace mgpu::extender {

// A pod that may be evicted: of lower priority than the pod that comes.
struct Candidate {
  std::int32_t priority = 0;
  std::string start_time;      // RFC 3339; later starts are evicted first
  bool breaks_budget = false;  // its eviction would violate a PodDisruptionBudget
  std::vector<CardHold> holds;
};

struct Eviction {
  std::vector<std::size_t> victims;  // indices into the candidates, ascending; empty: fits already
  std::size_t budget_violations = 0;
};

// Empty: not even without all candidates does the pod fit. The smallest set is searched exactly up
// to kPlacementStepsMax; beyond that a set from which no single victim can be spared.
std::optional<Eviction> choose_victims(const Node& node, const GpuRequest& request,
                                       std::span<const Candidate> candidates);

}  // namespace mgpu::extender
