// Indices belong to UUIDs for ever: a card that comes back gets the index it had, a new card one
// that was never given. Pure; what is known is kept on disk by the caller.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/contract/contract.h"
#include "plugin/cards/card_source.h"

namespace mgpu::plugin {

// Every card this node ever had. The facts are the last that were seen of it.
using KnownCards = std::map<CardIndex, CardFacts>;

struct Indexed {
  KnownCards known;              // with new cards added and facts brought up to date
  std::vector<CardFacts> cards;  // ascending by index: all found, and lost ones with health "Lost"
  std::vector<std::string> problems;  // one sentence each: an index of the cards file that belongs
                                      // to another UUID, no index left; such a card is left out
};

// `now` in RFC 3339 becomes `since` of every card whose health changed. A card known that is not
// found is listed as "Lost".
Indexed index_cards(const KnownCards& known, const std::vector<FoundCard>& found,
                    const std::string& now);

inline constexpr std::string_view kLost = "Lost";

}  // namespace mgpu::plugin
