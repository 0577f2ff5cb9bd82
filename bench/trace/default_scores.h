// The node scores of kube-scheduler 1.36.3 with its default configuration: LeastAllocated of
// NodeResourcesFit plus NodeResourcesBalancedAllocation, each with weight 1 and over CPU and memory
// (pkg/scheduler/framework/plugins/noderesources/least_allocated.go, balanced_allocation.go). The
// other default plugins score all nodes alike for pods without affinities, tolerations and owners.
// Pure.
#pragma once

#include <cstdint>

#include "extender/placement/node_resources.h"

namespace mgpu::trace {

struct NodeCapacity {
  extender::NodeResources allocatable;
  extender::NodeResources free;  // the part of it that no pod holds
};

// From 50 to 200. REQUIRES: `wanted` fits into node.free.
std::int64_t default_score(const NodeCapacity& node, const extender::NodeResources& wanted);

// What TaintToleration adds, with its weight 3, for a node without the taint of
// common/contract/cpu_taint.h where another candidate has it (taint_toleration.go).
inline constexpr std::int64_t kUntaintedScore = 300;

}  // namespace mgpu::trace
