// Spread: keep pods apart, on the emptiest card and node.
//
//   card   kScoreMax - fill
//   node   kScoreMax - mean fill of its offered cards, as kube-scheduler's LeastAllocated does
//
// where fill is that after placing, 0 .. kScoreMax (measures.h).
#include "extender/placement/measures.h"
#include "extender/placement/policies/policies.h"

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
