// What a placed pod holds of each card, by the Kubernetes rule for init containers and sidecars
// (KEP-753, kubernetes pkg/api/v1/resource/helpers.go, PodRequests), applied card by card:
//
//   hold(card) = max( sum of app containers and sidecars on it,
//                     over each init container: its share + sidecars declared before it on it )
#pragma once

#include <cstdint>
#include <vector>

#include "common/contract/gpu_request.h"
#include "extender/placement/cluster.h"

namespace mgpu::extender {

struct CardHold {
  CardIndex card;
  Share share;
  bool operator==(const CardHold&) const = default;
};

// Ascending by card. On a card that `node` does not have the pod holds its request, which for a
// whole card is 100 % and no memory.
std::vector<CardHold> holds(const Node& node, const GpuRequest& request,
                            const Placement& placement);

}  // namespace mgpu::extender
