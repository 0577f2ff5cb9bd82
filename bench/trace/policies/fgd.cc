// FGD, fragmentation gradient descent (Weng et al., "Beware of Fragmentation", USENIX ATC 2023; the
// simulator's fgd_score.go): where fragmentation by the expected workload (target_workload.h) grows
// least.
//
//   card   integer part of 100 * sigmoid((F before - F after) / 1000), F in thousandths of a card;
//          0 for a whole card, so that the first ones are taken
//   node   the same
//
// The coarse steps are part of the policy: of nodes with equal scores the first is taken, which
// keeps pods together. As long as no workload is known it is BestFit.
#include <cmath>
#include <span>

#include "bench/trace/policies/measures.h"
#include "bench/trace/policies/policies.h"
#include "extender/placement/simulate.h"
#include "extender/pricing/price_snapshot.h"

namespace mgpu::trace {
namespace {

bool has_workload(const PlacementContext& context) {
  return context.price_snapshot != nullptr && !context.price_snapshot->target.empty();
}

// REQUIRES: has_workload(context).
Score score(const PlacementContext& context, const Node& node, std::span<const CardHold> pod) {
  const extender::TargetWorkload& target = context.price_snapshot->target;
  Node after = node;
  extender::occupy(after, {pod.begin(), pod.end()}, context.resources);
  const double growth = target.fragmentation(after) - target.fragmentation(node);
  const double sigmoid = 1 / (1 + std::exp(growth / 1000));
  return hundredths(sigmoid);
}

std::uint32_t steps_of_growth(const PlacementContext& context, const Node& node) {
  if (!has_workload(context)) return 1;
  return 2 * context.price_snapshot->target.fragmentation_steps(node.cards.size());
}

Score score_card(const PlacementContext& context, const Node& node, const Card& card,
                 const Share& taken, const Share& share) {
  if (!has_workload(context)) return tightest_card(context, node, card, taken, share);
  if (share.core >= kWholeCard) return 0;
  // `taken` includes what other containers of the pod take, which the node does not count yet.
  const CardHold hold{card.index, room_in(taken + share, card.used + card.expected)};
  return score(context, node, {&hold, 1});
}

Score score_node(const PlacementContext& context, const Node& node,
                 const std::vector<CardHold>& pod) {
  return has_workload(context) ? score(context, node, pod)
                               : kBestFit.score_node(context, node, pod);
}

}  // namespace

const Policy kFgd{.name = "fgd",
                  .score_card = score_card,
                  .score_node = score_node,
                  .steps = steps_of_growth,
                  .ranks_pods_without_cards = true};

}  // namespace mgpu::trace
