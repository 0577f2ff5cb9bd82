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
#include <set>

#include "bench/trace/policies/measures.h"
#include "bench/trace/policies/policies.h"

namespace mgpu::trace {
namespace {

// 0 for a part of a card. REQUIRES: the pod has one container.
std::int32_t size_of(const GpuRequest& pod) {
  const ContainerRequest& container = pod.containers.front();
  return container.cards == 1 && container.per_card.core < kWholeCard ? 0 : container.cards;
}

Score no_preference(const PlacementContext&, const Node&, const std::vector<CardHold>&) {
  return 0;
}

}  // namespace

Score clustering_score(const extender::View& view, std::string_view name, const GpuRequest& pod) {
  constexpr Score kLargest = 800;  // percent of 8 cards
  const Score fill = 25 * (kLargest - free_core(*view.find(name))) / kLargest;
  std::set<std::int32_t> sizes;
  for (const extender::ClaimView* one : view.claims_on(name))
    sizes.insert(size_of(one->claim.request));
  if (sizes.empty()) return 25 + fill;
  if (!sizes.contains(size_of(pod))) return fill;
  return (sizes.size() == 1 ? 75 : 50) + fill;
}

const Policy kClustering{.name = "clustering",
                         .score_card = tightest_card,
                         .score_node = no_preference,
                         .ranks_pods_without_cards = true};

}  // namespace mgpu::trace
