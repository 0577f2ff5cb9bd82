// Why a pod fits or does not fit a node, card by card, with the numbers that reason.h leaves out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/contract/gpu_request.h"
#include "extender/placement/cluster.h"
#include "extender/placement/context.h"
#include "extender/placement/policy.h"
#include "extender/placement/reason.h"

namespace mgpu::extender {

struct CardExplanation {
  CardIndex card;
  std::size_t container = 0;  // index into request.containers
  bool fits = false;
  Share room;       // free of the card
  Share asked;      // by this container, of this card
  std::string why;  // "mgpu-core: asks 30, 20 free"; empty where it fits
};

struct NodeExplanation {
  NodeName node;
  std::optional<Placement> placement;  // where it would go
  std::optional<Reason> reason;        // why not; exactly one of the two is set
  std::vector<CardExplanation> cards;  // by container, then by card
};

NodeExplanation explain(const Node& node, const PlacementContext& context,
                        const Policy& card_policy);

}  // namespace mgpu::extender
