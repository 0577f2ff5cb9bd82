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

// The kind that a pod counts as by the cards it holds: how many, 0 for a part of one.
// REQUIRES: it holds some.
std::int32_t cards_counted(const std::vector<CardHold>& pod);

// Ascending by card. A card that `node` does not have counts with what was asked, a whole card of
// it as 100 % and no memory.
std::vector<CardHold> holds(const Node& node, const GpuRequest& request,
                            const Placement& placement);

}  // namespace mgpu::extender
