#include "extender/placement/policies/binpack.h"

#include "extender/placement/fill.h"

namespace mgpu::extender {

namespace {

Score score_card(const PlacementContext&, const Node&, const Card& card, const Share& taken,
                 const Share& share) {
  const Score filled = fill(card.capacity, taken + share) / 2;
  return taken.zero() ? filled : kScoreMax / 2 + filled;
}

Score score_node(const PlacementContext&, const Node& node, const std::vector<CardHold>& pod) {
  return fill_after(node, pod);
}

}  // namespace

const Policy kBinpack{.name = "binpack", .score_card = score_card, .score_node = score_node};

}  // namespace mgpu::extender
