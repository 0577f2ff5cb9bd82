#include "plugin/cards/card_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "common/base/check.h"
#include "common/base/rfc3339.h"
#include "common/base/text.h"
#include "common/contract/limits.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin {
namespace {

// The index of a card, or the sentence why it gets none. A card that is known keeps its index.
Result<CardIndex> index_for(const FoundCard& card, const KnownCards& known) {
  const std::string name = "card " + in_quotes(card.uuid.str());
  for (const auto& [index, facts] : known) {
    if (facts.uuid == card.uuid) return index;
  }
  if (card.memory.zero()) return error(name + " is left out: its memory is not known");
  if (card.index) {
    const auto owner = known.find(*card.index);
    if (owner == known.end()) return *card.index;
    return error(fmt::format("{} is left out: index {} belongs to card {} permanently", name,
                             card.index->value(), in_quotes(owner->second.uuid.str())));
  }
  for (std::int32_t value = 0; value <= kCardIndexMax; ++value) {
    if (!known.contains(CardIndex(value))) return CardIndex(value);
  }
  return error(fmt::format("{} is left out: all indices up to {} belong to other cards", name,
                           kCardIndexMax));
}

void set_health(CardFacts& facts, std::string_view health, const std::string& now) {
  if (facts.health == health) return;
  facts.health = health;
  facts.since = now;
}

// Facts that an unhealthy card does not report any more stay as they were.
void update_facts(KnownCards& known, CardIndex index, const FoundCard& card,
                  const std::string& now) {
  const auto [at, is_new] = known.try_emplace(index);
  CardFacts& facts = at->second;
  if (is_new) facts = {index, card.uuid, "unknown", card.memory, card.health, now};
  MGPU_DEBUG_CHECK(facts.uuid == card.uuid, "an index belongs to one card");
  if (!card.model.empty()) facts.model = card.model;
  if (!card.memory.zero()) facts.memory = card.memory;
  facts.core = card.core;
  facts.numa = card.numa;
  set_health(facts, card.health, now);
}

bool is_instance(const CardFacts& card) {
  return card.uuid.str().starts_with("MIG-");
}

// A time that cannot be read is no long one.
bool is_long_gone(const CardFacts& card, const std::string& now) {
  const auto since = read_rfc3339(card.since);
  const auto end = read_rfc3339(now);
  return card.health == kLost && since && end && *end - *since >= kGoneInstanceLife;
}

}  // namespace

IndexedCards index_cards(const KnownCards& known, const std::vector<FoundCard>& found,
                         const std::string& now,
                         const std::function<bool(const CardUuid&)>& in_use) {
  IndexedCards result{.known = known, .cards = {}, .problems = {}};
  // Cards that request an index come first, so that no other card is given it.
  std::vector<FoundCard> ordered = found;
  std::ranges::stable_partition(ordered,
                                [](const FoundCard& card) { return card.index.has_value(); });
  std::set<CardUuid> present;
  std::vector<const FoundCard*> unreadable;
  for (const FoundCard& card : ordered) {
    if (card.unreadable) {
      unreadable.push_back(&card);
      continue;
    }
    const std::string name = "card " + in_quotes(card.uuid.str());
    if (!present.insert(card.uuid).second) {
      result.problems.push_back(name + " was found twice");
      continue;
    }
    if (present.size() > kCardsPerNodeMax) {
      result.problems.push_back(
          fmt::format("{} is left out: a node has at most {} cards", name, kCardsPerNodeMax));
      continue;
    }
    const auto index = index_for(card, result.known);
    if (!index) {
      result.problems.push_back(index.error().message);
      continue;
    }
    if (card.index && *card.index != *index) {
      result.problems.push_back(fmt::format("{} requests index {} and keeps index {}, its own",
                                            name, card.index->value(), index->value()));
    }
    update_facts(result.known, *index, card, now);
  }
  if (in_use) {
    std::erase_if(result.known, [&](const auto& entry) {
      const CardFacts& card = entry.second;
      return is_instance(card) && !present.contains(card.uuid) && is_long_gone(card, now) &&
             !in_use(card.uuid);
    });
  }
  std::size_t lost = 0;
  for (auto& [index, facts] : result.known) {
    if (!present.contains(facts.uuid)) {
      set_health(facts, kLost, now);
      // A MIG device that was deleted is none of those that the driver cannot read.
      lost += is_instance(facts) ? 0 : 1;
    }
    result.cards.push_back(facts);
  }
  // A card that was read before is reported as lost.
  for (std::size_t i = lost; i < unreadable.size(); ++i) {
    result.problems.push_back(fmt::format("the driver counts card {}, which {}",
                                          in_quotes(unreadable[i]->uuid.str()),
                                          unreadable[i]->health));
  }
  // A node lists at most kCardsPerNodeMax cards. Those that have been lost for longest go first.
  while (result.cards.size() > kCardsPerNodeMax) {
    result.cards.erase(std::ranges::min_element(result.cards, {}, [](const CardFacts& card) {
      return std::pair(card.health != kLost, card.since);
    }));
  }
  return result;
}

CardLinks links_of(const std::vector<CardFacts>& cards, const FoundCards& found) {
  if (found.links.empty()) return {};
  const auto linked = std::span(found.cards).first(found.links.cards());
  const auto position = [&](const CardFacts& card) {
    return std::ranges::find(linked, card.uuid, &FoundCard::uuid) - linked.begin();
  };
  CardLinks links(cards.size());
  for (std::size_t a = 0; a < cards.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const auto from = position(cards[a]);
      const auto to = position(cards[b]);
      if (from == to || from == std::ssize(linked) || to == std::ssize(linked)) continue;
      links.set(a, b,
                found.links.between(static_cast<std::size_t>(from), static_cast<std::size_t>(to)));
    }
  }
  return links;
}

}  // namespace mgpu::plugin
