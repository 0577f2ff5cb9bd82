#include "extender/placement/policies/equilibrium.h"

#include <cmath>
#include <span>

#include "extender/placement/policies/binpack.h"
#include "extender/pricing/price_snapshot.h"

namespace mgpu::extender {

namespace {

// Steps of a GPU that scores tell apart: finer ones would be noise of the sums.
constexpr double kStepsPerGpu = 100'000;

bool knows_prices(const PlacementContext& context) {
  return context.price_snapshot != nullptr && !context.price_snapshot->tables.empty();
}

Score steps(float gpus) {
  return static_cast<Score>(std::llround(static_cast<double>(gpus) * kStepsPerGpu));
}

// REQUIRES: knows_prices(ask).
float value_after(const PlacementContext& context, const Node& node, const NodeResources& host,
                  std::span<const CardHold> pod) {
  const PriceTables& tables = context.price_snapshot->tables;
  return tables.value(room_after(node, tables.kinds(), host, pod));
}

Score score_card(const PlacementContext& context, const Node& node, const Card& card,
                 const Share& taken, const Share& share) {
  if (!knows_prices(context)) return kBinpack.score_card(context, node, card, taken, share);
  // Beside what the node counts, `taken` has what other containers of the pod take.
  const CardHold hold{card.index, room_in(taken + share, card.used + card.expected)};
  return steps(value_after(context, node, context.host, {&hold, 1}));
}

Score score_node(const PlacementContext& context, const Node& node,
                 const std::vector<CardHold>& pod) {
  if (knows_prices(context))
    return steps(value_after(context, node, context.host, pod) -
                 value_after(context, node, {}, {}));
  return kBinpack.score_node(context, node, pod);
}

}  // namespace

const Policy kEquilibrium{.name = "equilibrium",
                          .score_card = score_card,
                          .score_node = score_node,
                          .ranks_pods_without_cards = true,
                          .needs_prices = true};

}  // namespace mgpu::extender
