#include "extender/placement/policies/spread.h"

#include "extender/placement/fill.h"

namespace mgpu::extender {

namespace {

Score score_card(const PlacementContext&, const Node&, const Card& card, const Share& taken,
                 const Share& share) {
  return kScoreMax - fill(card.capacity, taken + share);
}

Score score_node(const PlacementContext&, const Node& node, const std::vector<CardHold>& pod) {
  return kScoreMax - fill_after(node, pod);
}

}  // namespace

const Policy kSpread{.name = "spread", .score_card = score_card, .score_node = score_node};

}  // namespace mgpu::extender
