// The properties of the cards of a node, for several fuzzers.
#pragma once

#include <set>
#include <vector>

#include "common/contract/contract.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {

// Expects that they are ascending, within the limits, none twice, and are read as they are written.
inline void expect_cards(const std::vector<CardFacts>& cards) {
  std::set<CardUuid> uuids;
  std::int32_t last = -1;
  expect(cards.size() <= kCardsPerNodeMax, "a node has up to 64 cards");
  for (const CardFacts& card : cards) {
    expect(card.index.value() > last && card.index.value() <= kCardIndexMax,
           "cards are ascending by index");
    last = card.index.value();
    expect(uuids.insert(card.uuid).second && !card.uuid.empty(), "each card has its own UUID");
    expect(!card.memory.zero() && card.memory <= MiB(kCardMemoryMiBMax), "a card has memory");
    expect(card.uuid.str().size() <= kCardTextMax && card.model.size() <= kCardTextMax,
           "texts of a card are short");
  }
  const auto again = parse_node_cards(format_node_cards(cards));
  expect(again && *again == cards, "cards are read as they are written");
}

// The same of the whole annotation.
inline void expect_node(const NodeCards& node) {
  expect_cards(node.cards);
  expect(node.links.empty() || node.links.cards() == node.cards.size(), "links are of the cards");
  const auto again = parse_node_annotation(format_node_cards(node.cards, node.profile, node.links));
  const bool same_links = again && (again->links == node.links || node.links.cards() < 2);
  expect(again && again->cards == node.cards && again->profile == node.profile && same_links,
         "a node is read as it is written");
}

}  // namespace mgpu::fuzz
