// Binpack: fill cards and nodes that are in use, so that whole cards and whole nodes stay free for
// the pods that need them.
//
//   card   kScoreMax/2 + fill/2 where the card is in use, fill/2 where it is empty
//   node   mean fill of its offered cards, as kube-scheduler's MostAllocated does for a node
//
// where fill is that after placing, 0 .. kScoreMax (measures.h). An empty card is used only where
// no other has room; then the one that is filled most.
#include "extender/placement/measures.h"
#include "extender/placement/policies/policies.h"

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
