#include "extender/placement/score.h"

#include <variant>

#include "extender/placement/holds.h"

namespace mgpu::extender {

Scored score_of(const Node& node, const PlacementContext& context, const PolicyChoice& policy,
                SearchBudget& budget) {
  const auto result = place(node, context, *policy.card, budget);
  const auto* placed = std::get_if<Placed>(&result);
  if (placed == nullptr) return {};
  const auto holds = extender::holds(node, context.request, placed->placement);
  budget.spend(node_steps(*policy.node, context, node));
  return {true, placed->beside_expected, policy.node->score_node(context, node, holds)};
}

bool better(const Scored& a, const Scored& b) {
  if (a.beside_expected != b.beside_expected) return a.beside_expected;
  return a.score > b.score;
}

}  // namespace mgpu::extender
