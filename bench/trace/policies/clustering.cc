// GPU Clustering, as published with FGD (measures.h): pods of the same size share nodes. The size
// of a pod is a part of one card, one card, two cards, and so on.
//
//   node   no cards requested                            0
//          it has pods of this size and no others        75 + fill
//          it has pods of this size and of others        50 + fill
//          it has no pods with cards                     25 + fill
//          it has only pods of other sizes               fill
//   card   the one with the least free compute
//
// where fill = integer part of 25 * (8 - R) / 8, R cards free.
#include <algorithm>

#include "bench/trace/policies/measures.h"
#include "bench/trace/policies/policies.h"

namespace mgpu::trace {
namespace {

Score score_node(const PlacementContext&, const Node& node, const std::vector<CardHold>& pod) {
  if (pod.empty()) return 0;
  constexpr Score kLargest = 800;  // percent of 8 cards
  const Score fill = 25 * (kLargest - free_core(node)) / kLargest;
  if (node.pods.empty()) return 25 + fill;
  const auto same =
      std::ranges::find(node.pods, extender::cards_counted(pod), &extender::PodsByCards::cards);
  if (same == node.pods.end()) return fill;
  return (node.pods.size() == 1 ? 75 : 50) + fill;
}

}  // namespace

const Policy kClustering{.name = "clustering",
                         .score_card = tightest_card,
                         .score_node = score_node,
                         .ranks_pods_without_cards = true};

}  // namespace mgpu::trace
