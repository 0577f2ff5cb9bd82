#include "extender/placement/policies/binpack.h"

#include "extender/placement/fill.h"

namespace mgpu::placement {

namespace {

Score score_card(const Card& card, const Share& taken, const Share& share) {
  const Score filled = fill(card.capacity, taken + share) / 2;
  return taken.zero() ? filled : kScoreMax / 2 + filled;
}

}  // namespace

const Policy kBinpack{.name = "binpack", .score_card = score_card, .score_node = fill_after};

}  // namespace mgpu::placement
