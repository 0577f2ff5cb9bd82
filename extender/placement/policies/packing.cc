#include "extender/placement/policies/packing.h"

#include <algorithm>

#include "extender/placement/fit.h"
#include "extender/placement/published.h"

namespace mgpu::extender {

namespace {

bool wholly_free(const Card& card) {
  return free_core(card) == kWholeCard.value();
}

bool all_free(const Node& node) {
  return std::ranges::all_of(cards_of(node),
                             [](const Card& card) { return !card.usable() || wholly_free(card); });
}

Score of_free_node(const Node& node) {
  const Score cards = std::ranges::count_if(cards_of(node), &Card::usable);
  return std::max(33 - cards, cards);
}

Score of_node_in_use(const Node& node, const std::vector<CardHold>& pod) {
  Score opened = 0;
  Score percent = 0;
  for (const CardHold& hold : pod) {
    const Card* card = node.find(hold.card);
    if (card == nullptr) continue;
    opened += wholly_free(*card);
    percent += free_core(*card);
  }
  return opened > 0 ? std::max<Score>(50 - opened, 33) : std::max<Score>(100 - percent / 10, 50);
}

Score score_node(const PlacementContext&, const Node& node, const std::vector<CardHold>& pod) {
  if (pod.empty()) return 0;
  return all_free(node) ? of_free_node(node) : of_node_in_use(node, pod);
}

}  // namespace

const Policy kPacking{.name = "packing",
                      .score_card = tightest_card,
                      .score_node = score_node,
                      .ranks_pods_without_cards = true};

}  // namespace mgpu::extender
