#include "extender/verbs/place_on.h"

#include <utility>
#include <variant>

#include "common/base/check.h"
#include "extender/placement/limits.h"
#include "extender/placement/place.h"

namespace mgpu::extender {

std::optional<Placement> place_on(const View& view, std::string_view node,
                                  const PlacementContext& context, const Policy& card_policy) {
  const Node* found = view.find(node);
  MGPU_CHECK(found != nullptr, "a node that was chosen is there");
  SearchBudget budget{kPlacementStepsMax};
  auto answer = place(*found, context, card_policy, budget);
  auto* placed = std::get_if<Placed>(&answer);
  if (placed == nullptr) return std::nullopt;
  return std::move(placed->placement);
}

}  // namespace mgpu::extender
