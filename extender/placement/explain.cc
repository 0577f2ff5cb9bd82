#include "extender/placement/explain.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "extender/placement/fit.h"
#include "extender/placement/limits.h"
#include "extender/placement/place.h"

namespace mgpu::extender {

namespace {

std::string number(std::int64_t value) {
  return std::to_string(value);
}

// "30 % and 1024 MiB"
std::string amounts(const Share& share) {
  return number(share.core.value()) + " % and " + number(share.memory.value()) + " MiB";
}

std::string too_small(const Share& capacity, const Share& asked) {
  return "the card is too small: asks " + amounts(asked) + ", it has " + amounts(capacity);
}

std::string no_room(const Share& room, const Share& asked) {
  std::string why;
  if (asked.core > room.core) {
    why = "mgpu-core: asks " + number(asked.core.value()) + ", " + number(room.core.value()) +
          " free";
  }
  if (asked.memory > room.memory) {
    why += std::string(why.empty() ? "" : "; ") + "mgpu-memory: asks " +
           number(asked.memory.value()) + ", " + number(room.memory.value()) + " free";
  }
  return why;
}

// In the order of Reason; empty where the container fits the card.
std::string why_not_card(const Card& card, const CardSelector& selector,
                         const ContainerRequest& container) {
  if (!model_matches(selector, card)) return "does not match gpu-model";
  if (!uuid_matches(selector, card)) return "does not match gpu-uuid";
  if (!card.healthy) return "unhealthy";
  const Share asked = container.on(card.capacity);
  if (!asked.fits_in(card.capacity)) return too_small(card.capacity, asked);
  if (card.uncertain) return "blocked by a pod whose cards are not known";
  if (asked.fits_in(card.room())) return {};
  if (container.whole) return "asks the whole card, " + amounts(card.used) + " are taken";
  return no_room(card.room(), asked);
}

std::vector<CardExplanation> explain_cards(const Node& node, const GpuRequest& request) {
  std::vector<CardExplanation> cards;
  for (std::size_t i = 0; i < request.containers.size(); ++i) {
    const ContainerRequest& container = request.containers[i];
    for (const Card& card : cards_of(node)) {
      std::string why = why_not_card(card, request.selector, container);
      cards.push_back({.card = card.index,
                       .container = i,
                       .fits = why.empty(),
                       .room = card.room(),
                       .asked = container.on(card.capacity),
                       .why = std::move(why)});
    }
  }
  return cards;
}

}  // namespace

NodeExplanation explain(const Node& node, const PlacementContext& context,
                        const Policy& card_policy) {
  NodeExplanation explanation{.node = node.name,
                              .placement = {},
                              .reason = {},
                              .cards = explain_cards(node, context.request)};
  SearchBudget budget{kPlacementStepsMax};
  auto result = place(node, context, card_policy, budget);
  if (auto* placed = std::get_if<Placed>(&result)) {
    explanation.placement = std::move(placed->placement);
  } else {
    explanation.reason = std::get<Reason>(result);
  }
  return explanation;
}

}  // namespace mgpu::extender
