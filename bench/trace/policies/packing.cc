// GPU Packing, as published with FGD (measures.h): cards in use are preferred, then free cards of
// nodes in use, then nodes that are not in use. The pod takes u cards that are completely free.
//
//   node   no cards requested                    0
//          all f usable cards are free           max(33 - f, f)
//          u > 0                                 max(50 - u, 33)
//          u = 0                                 max(100 - P/10, 50), P percent free on its cards
//   card   the one with the least free compute
#include <algorithm>

#include "bench/trace/policies/measures.h"
#include "bench/trace/policies/policies.h"
#include "extender/placement/fit.h"

namespace mgpu::trace {
namespace {

bool is_free(const Card& card) {
  return card.usable() && card.room_after_expected().core == card.capacity.core;
}

Score score_node(const PlacementContext&, const Node& node, const std::vector<CardHold>& pod) {
  if (pod.empty()) return 0;
  const auto cards = extender::cards_of(node);
  const Score usable = std::ranges::count_if(cards, &Card::usable);
  if (std::ranges::count_if(cards, is_free) == usable) return std::max(33 - usable, usable);
  Score taken_free = 0;
  Score percent = 0;
  for (const CardHold& hold : pod) {
    const Card* card = node.find(hold.card);
    if (card == nullptr) continue;
    taken_free += is_free(*card);
    percent += free_core(*card);
  }
  return taken_free > 0 ? std::max<Score>(50 - taken_free, 33)
                        : std::max<Score>(100 - percent / 10, 50);
}

}  // namespace

const Policy kPacking{.name = "packing",
                      .score_card = tightest_card,
                      .score_node = score_node,
                      .ranks_pods_without_cards = true};

}  // namespace mgpu::trace
