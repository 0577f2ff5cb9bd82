// What kube-scheduler thinks of a node by itself: NodeResourcesFit's LeastAllocated and
// NodeResourcesBalancedAllocation, each of weight 1 and over CPU and memory, as the defaults of
// Kubernetes 1.36.3 have them (pkg/scheduler/framework/plugins/noderesources/least_allocated.go,
// balanced_allocation.go). The other default plugins have no opinion where pods have neither
// affinities nor tolerations, and no two pods one owner. Pure.
#pragma once

#include <cstdint>

#include "extender/placement/node_resources.h"

namespace mgpu::trace {

struct HostRoom {
  extender::NodeResources allocatable;
  extender::NodeResources free;  // of it
};

// 50 .. 200. REQUIRES: `wanted` is free.
std::int64_t default_score(const HostRoom& node, const extender::NodeResources& wanted);

}  // namespace mgpu::trace
