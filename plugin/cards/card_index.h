// Assigns indices to cards. An index belongs to a UUID permanently: a card that comes back gets the
// index it had, and a new card gets one that no other has. A MIG device that is deleted never comes
// back, and a change of the partition makes many: it is forgotten kGoneInstanceLife later, so that
// pods that were bound with its index before have failed to start, or are known. Pure; the caller
// keeps the known cards on disk.
#pragma once

#include <functional>
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

// `now` in RFC 3339 becomes `since` of every card whose health changed. `in_use` returns whether a
// pod may have the card; not set: no card is forgotten.
IndexedCards index_cards(const KnownCards& known, const std::vector<FoundCard>& found,
                         const std::string& now,
                         const std::function<bool(const CardUuid&)>& in_use = {});

// The links of `found` by the positions in `cards`; empty if they are not known. A card that is not
// found has none.
CardLinks links_of(const std::vector<CardFacts>& cards, const FoundCards& found);

}  // namespace mgpu::plugin
