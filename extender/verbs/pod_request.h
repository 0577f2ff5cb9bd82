// What a pod asks, as every verb reads it: cards, and the policy that chooses among them.
#pragma once

#include "common/base/result.h"
#include "common/contract/gpu_request.h"
#include "common/kube/objects.h"
#include "extender/placement/context.h"
#include "extender/placement/policy.h"
#include "extender/verbs/verbs.h"

namespace mgpu::extender {

struct PodRequest {
  GpuRequest request;                // empty: not a GPU pod
  PolicyChoice policy;               // the pod's own, or the extender's default
  NodeResources host;                // asked beside cards
  std::uint64_t tie_break_seed = 0;  // draw_of its uid

  // Lives no longer than this and the price snapshot.
  PlacementContext context(const PriceSnapshot* price_snapshot) const {
    return {request, host, tie_break_seed, price_snapshot};
  }
};

// Errors: those of read_request, and a policy in the pod's annotation that there is not.
Result<PodRequest> read_pod_request(const kube::Pod& pod, const Settings& settings);

}  // namespace mgpu::extender
