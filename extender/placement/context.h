// All that a decision may know of the pod to be placed and of those to come. Pure.
#pragma once

#include <cstdint>

#include "common/base/ids.h"
#include "common/contract/gpu_request.h"
#include "extender/placement/node_resources.h"

namespace mgpu::extender {

struct PriceSnapshot;

// Refers to what its maker owns; lives no longer than one decision.
struct PlacementContext {
  // A request of which nothing else is known.
  PlacementContext(const GpuRequest& request_of_pod)
      : request(request_of_pod) {}  // NOLINT: the plain case
  PlacementContext(const GpuRequest& request_of_pod, const NodeResources& its_host,
                   std::uint64_t its_draw, const PriceSnapshot* snapshot_of_prices)
      : request(request_of_pod),
        host(its_host),
        tie_break_seed(its_draw),
        price_snapshot(snapshot_of_prices) {}

  const GpuRequest& request;
  NodeResources host;                // what the pod takes of the node beside cards
  std::uint64_t tie_break_seed = 0;  // the pod's own number, for choices that shall look random
  const PriceSnapshot* price_snapshot =
      nullptr;  // what is known of the pods to come (price_snapshot.h); null: nothing
};

// The number of the pod with this uid: FNV-1a of it, so that every replica draws the same.
std::uint64_t draw_of(const PodUid& uid);

}  // namespace mgpu::extender
