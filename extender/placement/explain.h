// Why a pod fits a node or does not, for each card, with the numbers that reason.h leaves out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/contract/card_links.h"
#include "common/contract/gpu_request.h"
#include "extender/placement/cluster.h"
#include "extender/placement/context.h"
#include "extender/placement/place.h"
#include "extender/placement/policy.h"
#include "extender/placement/reason.h"

namespace mgpu::extender {

// CardExplanation::why of a card that is not healthy.
inline constexpr const char* kUnhealthy = "unhealthy";

struct CardExplanation {
  CardIndex card;
  std::size_t container = 0;  // index into request.containers
  bool fits = false;
  Share room;       // what is free on the card
  Share asked;      // what the container requests of this card
  std::string why;  // such as "mgpu-core: requests 30, 20 free"; empty if it fits
};

struct NodeExplanation {
  NodeName node;
  // Exactly one of the two is set.
  std::optional<Placement> placement;
  std::optional<Reason> reason;
  std::vector<std::optional<Link>> links{};  // the worst_link of each container of the placement
  std::vector<CardExplanation> cards;        // by container, then by card
};

// The search takes at most the steps of `budget`, and at most kPlacementStepsMax for one order of
// cards; each card and container takes kExplainedCardSteps besides.
NodeExplanation explain(const Node& node, const PlacementContext& context,
                        const Policy& card_policy, SearchBudget& budget);

}  // namespace mgpu::extender
