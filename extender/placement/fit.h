// Which cards may take what, one container at a time. What several containers of a pod need at
// once is search.h. Pure; nothing here allocates.
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

// What of a card may be taken.
enum class Room : std::uint8_t {
  kNow,            // what is free
  kAfterExpected,  // what is free when the pods on their way have come
  kEmpty,          // all of it, whatever is on it
};
Share room_of(const Card& card, Room room);

// The cards that placement looks at.
std::span<const Card> cards_of(const Node& node);

// By model; by uuid.
bool model_matches(const CardSelector& selector, const Card& card);
bool uuid_matches(const CardSelector& selector, const Card& card);
bool matches(const CardSelector& selector, const Card& card);

// Cards that match and are healthy; those of them that are certain too, that is, usable now.
CardSet healthy_cards(const Node& node, const CardSelector& selector);
CardSet usable_cards(const Node& node, const CardSelector& selector);

// Whether enough cards have room for `container`, were it alone.
bool fits_alone(const Node& node, const CardSelector& selector, const ContainerRequest& container);

// Why it does not fit alone; empty where it does.
std::optional<Reason> why_not_alone(const Node& node, const CardSelector& selector,
                                    const ContainerRequest& container);

}  // namespace mgpu::extender
