#include "extender/placement/explain.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "extender/placement/fit.h"
#include "extender/placement/limits.h"
#include "extender/placement/links.h"
#include "extender/placement/place.h"

namespace mgpu::extender {
namespace {

std::string amounts(const Share& share) {
  return fmt::format("{} % and {} MiB", share.core.value(), share.memory.value());
}

std::string no_room(const Share& room, const Share& asked) {
  std::string why;
  if (asked.core > room.core)
    why = fmt::format("mgpu-core: requests {}, {} free", asked.core.value(), room.core.value());
  if (asked.memory > room.memory) {
    why += fmt::format("{}mgpu-memory: requests {}, {} free", why.empty() ? "" : "; ",
                       asked.memory.value(), room.memory.value());
  }
  return why;
}

// In the order of Reason; empty if the container fits the card.
std::string why_not_card(const Card& card, const CardSelector& selector,
                         const ContainerRequest& container) {
  if (!model_matches(selector, card)) {
    return card.instance && selector.models.empty() && selector.uuids.empty()
               ? "is a MIG device, which gpu-model must name"
               : "does not match gpu-model";
  }
  if (!uuid_matches(selector, card)) return "does not match gpu-uuid";
  if (card.reserved) return "reserved by the profile of the node";
  if (!card.healthy) return kUnhealthy;
  if (card.cordoned) return "cordoned";
  const Share asked = container.on(card.capacity);
  if (!asked.fits_in(card.capacity)) {
    return fmt::format("the card is too small: requests {}, it has {}", amounts(asked),
                       amounts(card.capacity));
  }
  if (card.uncertain) return "blocked by a pod whose cards are not known";
  if (asked.fits_in(card.room())) return {};
  if (container.whole)
    return fmt::format("requests the whole card, {} are taken", amounts(card.used));
  return no_room(card.room(), asked);
}

}  // namespace

NodeExplanation explain(const Node& node, const PlacementContext& context,
                        const Policy& card_policy, SearchBudget& budget) {
  NodeExplanation explanation{.node = node.name, .placement = {}, .reason = {}, .cards = {}};
  for (std::size_t i = 0; i < context.request.containers.size(); ++i) {
    const ContainerRequest& container = context.request.containers[i];
    for (const Card& card : cards_of(node)) {
      std::string why = why_not_card(card, context.request.selector, container);
      const bool fits = why.empty();
      explanation.cards.push_back({.card = card.index,
                                   .container = i,
                                   .fits = fits,
                                   .room = card.room(),
                                   .asked = container.on(card.capacity),
                                   .why = std::move(why)});
    }
  }
  budget.spend(explanation.cards.size() * kExplainedCardSteps);
  auto result = place(node, context, card_policy, budget);
  if (auto* placed = std::get_if<Placed>(&result)) {
    for (const auto& cards : placed->placement.cards_of)
      explanation.links.push_back(worst_link(node, cards));
    explanation.placement = std::move(placed->placement);
  } else {
    explanation.reason = std::get<Reason>(result);
  }
  return explanation;
}

}  // namespace mgpu::extender
