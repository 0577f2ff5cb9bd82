// Equilibrium: the least loss of future value, that is, of value(node) before the pod minus
// value(node) after it (prices.h), for the best card and for the best node. It keeps the free parts
// of cards matched to the sizes of expected pods, places pods with large CPU requests where CPU is
// plentiful, and keeps cards of models that few pods may use free for those pods.
//
// Where the price snapshot has no prices it is binpack, and pods without cards are not scored.
#include <cmath>
#include <span>

#include "extender/placement/policies/policies.h"
#include "extender/pricing/price_snapshot.h"

namespace mgpu::extender {
namespace {

// Scores are multiples of 1/100,000 GPU: finer differences are rounding errors of the sums.
constexpr double kStepsPerGpu = 100'000;

bool has_prices(const PlacementContext& context) {
  return context.price_snapshot != nullptr && !context.price_snapshot->tables.empty();
}

std::uint32_t steps_of_value(const PlacementContext& context, const Node& node) {
  if (!has_prices(context)) return 1;
  return context.price_snapshot->tables.value_steps(node.cards.size());
}

Score steps(float gpus) {
  return static_cast<Score>(std::llround(static_cast<double>(gpus) * kStepsPerGpu));
}

// REQUIRES: has_prices(context).
float value_after(const PlacementContext& context, const Node& node, const NodeResources& resources,
                  std::span<const CardHold> pod) {
  const PriceTables& tables = context.price_snapshot->tables;
  return tables.value(room_after(node, tables.kinds(), resources, pod));
}

Score score_card(const PlacementContext& context, const Node& node, const Card& card,
                 const Share& taken, const Share& share) {
  if (!has_prices(context)) return kBinpack.score_card(context, node, card, taken, share);
  // `taken` includes what other containers of the pod take, which the node does not count yet.
  const CardHold hold{card.index, room_in(taken + share, card.used + card.expected)};
  return steps(value_after(context, node, context.resources, {&hold, 1}));
}

Score score_node(const PlacementContext& context, const Node& node,
                 const std::vector<CardHold>& pod) {
  if (!has_prices(context)) return kBinpack.score_node(context, node, pod);
  return steps(value_after(context, node, context.resources, pod) -
               value_after(context, node, {}, {}));
}

}  // namespace

const Policy kEquilibrium{.name = "equilibrium",
                          .score_card = score_card,
                          .score_node = score_node,
                          .steps = steps_of_value,
                          .ranks_pods_without_cards = true,
                          .needs_prices = true};

}  // namespace mgpu::extender
