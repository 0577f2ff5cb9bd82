#include "extender/verbs/place_on.h"

#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/limits.h"
#include "extender/placement/place.h"

namespace mgpu::verbs {

std::optional<Placement> place_on(const ledger::View& view, std::string_view node,
                                  const placement::Ask& ask, const placement::Policy& card_policy) {
  const placement::Node* found = view.find(node);
  MGPU_CHECK(found != nullptr, "a node that was chosen is there");
  placement::SearchBudget budget{limits::kPlacementStepsMax};
  auto answer = placement::place(*found, ask, card_policy, budget);
  auto* placed = std::get_if<placement::Placed>(&answer);
  if (placed == nullptr) return std::nullopt;
  return std::move(placed->placement);
}

}  // namespace mgpu::verbs
