#include "extender/placement/fit.h"

#include <algorithm>
#include <bit>

#include "common/base/check.h"
#include "common/contract/limits.h"
#include "extender/placement/card_model.h"

namespace mgpu::extender {

namespace {

template <class Accepts>
CardSet cards_that(const Node& node, Accepts accepts) {
  CardSet set = 0;
  const auto cards = cards_of(node);
  for (std::size_t i = 0; i < cards.size(); ++i) {
    if (accepts(cards[i])) set |= CardSet{1} << i;
  }
  return set;
}

// How many cards pass each test, in the order of Reason, of those that passed the tests before it.
struct Counts {
  std::int32_t all = 0;
  std::int32_t matching = 0;
  std::int32_t healthy = 0;
  std::int32_t offered = 0;
  std::int32_t large = 0;
  std::int32_t roomy = 0;  // those with room, uncertain or not
  std::int32_t certain = 0;
  // The certain ones with enough of each.
  std::int32_t core = 0;
  std::int32_t memory = 0;
  std::int32_t both = 0;
};

// Without branches that depend on the card: on a full cluster this runs for every card.
void count(Counts& counts, const Card& card, bool matching, const ContainerRequest& container) {
  const Share asked = container.on(card.capacity);
  const Share room = card.room();
  const bool healthy = matching & card.healthy;
  const bool offered = healthy & !card.cordoned;
  const bool large = offered & asked.fits_in(card.capacity);
  const bool certain = large & !card.uncertain;
  const bool core = asked.core <= room.core;
  const bool memory = asked.memory <= room.memory;
  ++counts.all;
  counts.matching += matching;
  counts.healthy += healthy;
  counts.offered += offered;
  counts.large += large;
  counts.roomy += large & core & memory;
  counts.certain += certain;
  counts.core += certain & core;
  counts.memory += certain & memory;
  counts.both += certain & core & memory;
}

std::optional<Reason> reason_of(const Counts& counts, std::int32_t wanted) {
  if (counts.all == 0) return Reason::kNoCards;
  if (counts.all < wanted) return Reason::kTooFewCards;
  if (counts.matching < wanted) return Reason::kNoCardMatches;
  if (counts.healthy < wanted) return Reason::kCardsUnhealthy;
  if (counts.offered < wanted) return Reason::kCardsCordoned;
  if (counts.large < wanted) return Reason::kCardsTooSmall;
  if (counts.both >= wanted) return std::nullopt;
  // Uncertain cards are the cause: too few are certain, or enough would have room were all certain.
  if (counts.certain < wanted || counts.roomy >= wanted) return Reason::kCardsUncertain;
  if (counts.core < wanted) return Reason::kCore;
  if (counts.memory < wanted) return Reason::kMemory;
  return Reason::kCoreAndMemory;
}

}  // namespace

Share room_of(const Card& card, Room room) {
  switch (room) {
    case Room::kNow:
      return card.room();
    case Room::kAfterExpected:
      return card.room_after_expected();
    case Room::kEmpty:
      return card.capacity;
  }
  MGPU_CHECK(false, "a room outside its enumeration");
  return {};
}

std::span<const Card> cards_of(const Node& node) {
  return std::span(node.cards).first(std::min(node.cards.size(), kCardsPerNodeMax));
}

bool model_matches(const CardSelector& selector, const Card& card) {
  if (selector.models.empty()) {
    return (!card.instance || !selector.uuids.empty()) &&
           std::ranges::none_of(selector.models_excluded, [&](const std::string& name) {
             return names_model(name, card.model);
           });
  }
  return accepts_model(selector.models, selector.models_excluded, card.model);
}

bool uuid_matches(const CardSelector& selector, const Card& card) {
  const auto lists = [&](const std::vector<std::string>& uuids) {
    return std::ranges::find(uuids, card.uuid.str()) != uuids.end();
  };
  return (selector.uuids.empty() || lists(selector.uuids)) && !lists(selector.uuids_excluded);
}

bool matches(const CardSelector& selector, const Card& card) {
  const bool any = selector.empty() && !card.instance;
  return any || (model_matches(selector, card) && uuid_matches(selector, card));
}

CardSet matching_cards(const Node& node, const CardSelector& selector) {
  return cards_that(node, [&](const Card& card) { return matches(selector, card); });
}

CardSet offered_cards(const Node& node, const CardSelector& selector) {
  return cards_that(node,
                    [&](const Card& card) { return card.offered() && matches(selector, card); });
}

CardSet usable_cards(const Node& node, const CardSelector& selector) {
  return cards_that(node,
                    [&](const Card& card) { return card.usable() && matches(selector, card); });
}

CardSet cards_with_room(const Node& node, CardSet cards, const ContainerRequest& container,
                        Room room) {
  CardSet with_room = 0;
  for (CardSet left = cards; left != 0; left &= left - 1) {
    const Card& card = node.cards[static_cast<std::size_t>(std::countr_zero(left))];
    if (container.on(card.capacity).fits_in(room_of(card, room))) with_room |= left & ~(left - 1);
  }
  return with_room;
}

bool fits_alone(const Node& node, const CardSelector& selector, const ContainerRequest& container) {
  std::int32_t found = 0;
  for (const Card& card : cards_of(node)) {
    if (!card.usable() || !container.on(card.capacity).fits_in(card.room())) continue;
    if (!matches(selector, card)) continue;
    if (++found == container.cards) return true;
  }
  return false;
}

bool fits_alone(const Node& node, CardSet usable, const ContainerRequest& container) {
  std::int32_t found = 0;
  for (CardSet left = usable; left != 0; left &= left - 1) {
    const Card& card = node.cards[static_cast<std::size_t>(std::countr_zero(left))];
    if (!container.on(card.capacity).fits_in(card.room())) continue;
    if (++found == container.cards) return true;
  }
  return false;
}

std::optional<Reason> why_not_alone(const Node& node, const CardSelector& selector,
                                    const ContainerRequest& container) {
  Counts counts;
  for (const Card& card : cards_of(node)) count(counts, card, matches(selector, card), container);
  return reason_of(counts, container.cards);
}

std::optional<Reason> why_not_alone(const Node& node, CardSet matching,
                                    const ContainerRequest& container) {
  Counts counts;
  for (const Card& card : cards_of(node)) {
    count(counts, card, (matching & 1) != 0, container);
    matching >>= 1;
  }
  return reason_of(counts, container.cards);
}

}  // namespace mgpu::extender
