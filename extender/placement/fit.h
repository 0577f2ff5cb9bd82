// Which cards can take one container. search.h places several containers of a pod at once. Pure;
// nothing here allocates.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/contract/gpu_request.h"
#include "common/contract/limits.h"
#include "extender/placement/cluster.h"
#include "extender/placement/reason.h"

namespace mgpu::extender {

// Some of a node's cards: bit i is node.cards[i]. Cards beyond the limit are never used.
using CardSet = std::uint64_t;
static_assert(kCardsPerNodeMax <= 64);

// Which part of a card may be taken.
enum class Room : std::uint8_t {
  kNow,            // what is free
  kAfterExpected,  // what is free beside expected placements
  kEmpty,          // all of it, as if no pod were on it
};
Share room_of(const Card& card, Room room);

// The first kCardsPerNodeMax cards of the node.
std::span<const Card> cards_of(const Node& node);

bool model_matches(const CardSelector& selector, const Card& card);
bool uuid_matches(const CardSelector& selector, const Card& card);
bool matches(const CardSelector& selector, const Card& card);

// Returns the cards that match.
CardSet matching_cards(const Node& node, const CardSelector& selector);
// Returns those of them that are healthy and not cordoned.
CardSet offered_cards(const Node& node, const CardSelector& selector);
// Returns those of these that are usable now.
CardSet usable_cards(const Node& node, const CardSelector& selector);

// Those of `cards` that have room for `container`.
CardSet cards_with_room(const Node& node, CardSet cards, const ContainerRequest& container,
                        Room room);

// Whether enough cards have room for `container` alone.
bool fits_alone(const Node& node, const CardSelector& selector, const ContainerRequest& container);

bool fits_alone(const Node& node, CardSet usable, const ContainerRequest& container);

// Why it does not fit alone; empty if it fits.
std::optional<Reason> why_not_alone(const Node& node, const CardSelector& selector,
                                    const ContainerRequest& container);
std::optional<Reason> why_not_alone(const Node& node, CardSet matching,
                                    const ContainerRequest& container);

}  // namespace mgpu::extender
