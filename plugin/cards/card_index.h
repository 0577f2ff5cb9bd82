// Assigns indices to cards. An index belongs to a UUID permanently: a card that comes back gets the
// index it had, and a new card gets one that was never used. Pure; the caller keeps the known cards
// on disk.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/contract/contract.h"
#include "plugin/cards/card_source.h"

namespace mgpu::plugin {

// The health of a known card that is not found.
inline constexpr std::string_view kLost = "Lost";

// Every card that this node ever had, with the facts that were last read.
using KnownCards = std::map<CardIndex, CardFacts>;

struct IndexedCards {
  KnownCards known;              // with new cards and current facts
  std::vector<CardFacts> cards;  // ascending by index: all found cards, and lost ones
  // One sentence for each card that is left out or does not get the index that it requests.
  std::vector<std::string> problems;
};

// `now` in RFC 3339 becomes `since` of every card whose health changed.
IndexedCards index_cards(const KnownCards& known, const std::vector<FoundCard>& found,
                         const std::string& now);

// The links of `found` by the positions in `cards`; empty if they are not known. A card that is not
// found has none.
CardLinks links_of(const std::vector<CardFacts>& cards, const FoundCards& found);

}  // namespace mgpu::plugin
