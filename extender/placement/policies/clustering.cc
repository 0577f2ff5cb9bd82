#include "extender/placement/policies/clustering.h"

#include <algorithm>

#include "extender/placement/published.h"

namespace mgpu::extender {

namespace {

Score company(const Node& node, std::int32_t kind) {
  if (node.pods.empty()) return 25;
  const bool has_kind = std::ranges::find(node.pods, kind, &PodsByCards::cards) != node.pods.end();
  if (!has_kind) return 0;
  return node.pods.size() == 1 ? 75 : 50;
}

Score score_node(const PlacementContext&, const Node& node, const std::vector<CardHold>& pod) {
  if (pod.empty()) return 0;
  constexpr Score kLargest = 800;  // percent of 8 cards
  return company(node, cards_counted(pod)) + 25 * (kLargest - free_core(node)) / kLargest;
}

}  // namespace

const Policy kClustering{.name = "clustering",
                         .score_card = tightest_card,
                         .score_node = score_node,
                         .ranks_pods_without_cards = true};

}  // namespace mgpu::extender
