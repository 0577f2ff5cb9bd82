#include "extender/placement/policies/fgd.h"

#include <cmath>
#include <span>

#include "extender/placement/policies/bestfit.h"
#include "extender/placement/published.h"
#include "extender/pricing/price_snapshot.h"
#include "extender/pricing/target_workload.h"

namespace mgpu::extender {

namespace {

bool knows_workload(const PlacementContext& context) {
  return context.price_snapshot != nullptr && !context.price_snapshot->target.empty();
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// REQUIRES: knows_workload(ask).
Score score(const PlacementContext& context, const Node& node, std::span<const CardHold> pod) {
  const TargetWorkload& target = context.price_snapshot->target;
  const double growth =
      target.fragmentation_after(node, context.host, pod) - target.fragmentation(node);
  return hundredths(sigmoid(-growth / 1000));
}

Score score_card(const PlacementContext& context, const Node& node, const Card& card,
                 const Share& taken, const Share& share) {
  if (!knows_workload(context)) return tightest_card(context, node, card, taken, share);
  if (share.core >= kWholeCard) return 0;
  // Beside what the node counts, `taken` has what other containers of the pod take.
  const Share counted = card.used + card.expected;
  const CardHold hold{card.index, room_in(taken + share, counted)};
  return score(context, node, {&hold, 1});
}

Score score_node(const PlacementContext& context, const Node& node,
                 const std::vector<CardHold>& pod) {
  return knows_workload(context) ? score(context, node, pod)
                                 : kBestFit.score_node(context, node, pod);
}

}  // namespace

const Policy kFgd{.name = "fgd",
                  .score_card = score_card,
                  .score_node = score_node,
                  .ranks_pods_without_cards = true};

}  // namespace mgpu::extender
