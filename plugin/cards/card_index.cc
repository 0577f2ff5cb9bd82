#include "plugin/cards/card_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "common/base/text.h"
#include "common/contract/limits.h"

namespace mgpu::plugin {
namespace {

std::optional<CardIndex> index_of(const KnownCards& known, const CardUuid& uuid) {
  for (const auto& [index, facts] : known) {
    if (facts.uuid == uuid) return index;
  }
  return std::nullopt;
}

std::optional<CardIndex> lowest_free(const KnownCards& known) {
  for (std::int32_t value = 0; value <= kCardIndexMax; ++value) {
    if (!known.contains(CardIndex(value))) return CardIndex(value);
  }
  return std::nullopt;
}

std::string named(const FoundCard& card) {
  return "card " + in_quotes(card.uuid.str());
}

class Indexing {
 public:
  Indexing(const KnownCards& known, const std::string& now) : now_(now) { result_.known = known; }

  void add(const FoundCard& card) {
    if (!present_.insert(card.uuid).second) return complain(named(card) + " was found twice");
    if (present_.size() > kCardsPerNodeMax) {
      return complain(fmt::format("{} is left out: a node has at most {} cards", named(card),
                                  kCardsPerNodeMax));
    }
    if (const auto index = place(card)) note(*index, card);
  }

  Indexed finish() {
    for (auto& [index, facts] : result_.known) {
      if (!present_.contains(facts.uuid)) set_health(facts, std::string(kLost));
      result_.cards.push_back(facts);
    }
    leave_out_the_longest_lost();
    return std::move(result_);
  }

 private:
  // None: the card is left out, and a problem says why.
  std::optional<CardIndex> place(const FoundCard& card) {
    if (const auto index = index_of(result_.known, card.uuid)) {
      if (card.index && card.index != index) {
        complain(fmt::format("{} asks for index {} and keeps index {}, which is its for ever",
                             named(card), card.index->value(), index->value()));
      }
      return index;
    }
    if (card.memory.zero()) {
      complain(named(card) + " is left out: its memory is not known");
      return std::nullopt;
    }
    return card.index ? asked_for(card) : any(card);
  }

  std::optional<CardIndex> asked_for(const FoundCard& card) {
    const auto holder = result_.known.find(*card.index);
    if (holder == result_.known.end()) return card.index;
    complain(fmt::format("{} is left out: index {} belongs to card {} for ever", named(card),
                         card.index->value(), in_quotes(holder->second.uuid.str())));
    return std::nullopt;
  }

  std::optional<CardIndex> any(const FoundCard& card) {
    const auto index = lowest_free(result_.known);
    if (!index) {
      complain(fmt::format("{} is left out: all indices up to {} belong to other cards",
                           named(card), kCardIndexMax));
    }
    return index;
  }

  // What a sick card does not tell any more stays as it was.
  void note(CardIndex index, const FoundCard& card) {
    const auto [at, is_new] = result_.known.try_emplace(index);
    CardFacts& facts = at->second;
    if (is_new) facts = {index, card.uuid, "unknown", card.memory, card.health, now_};
    if (!card.model.empty()) facts.model = card.model;
    if (!card.memory.zero()) facts.memory = card.memory;
    set_health(facts, card.health);
  }

  void set_health(CardFacts& facts, std::string health) {
    if (facts.health == health) return;
    facts.health = std::move(health);
    facts.since = now_;
  }

  // A node lists so many cards and no more; it may have had others long ago.
  void leave_out_the_longest_lost() {
    while (result_.cards.size() > kCardsPerNodeMax) {
      const auto order = [](const CardFacts& a, const CardFacts& b) {
        return std::pair(a.health != kLost, a.since) < std::pair(b.health != kLost, b.since);
      };
      result_.cards.erase(std::min_element(result_.cards.begin(), result_.cards.end(), order));
    }
  }

  void complain(std::string problem) { result_.problems.push_back(std::move(problem)); }

  const std::string& now_;
  Indexed result_;
  std::set<CardUuid> present_;
};

}  // namespace

Indexed index_cards(const KnownCards& known, const std::vector<FoundCard>& found,
                    const std::string& now) {
  Indexing indexing(known, now);
  // Those that ask for an index first, so that no other is given theirs.
  for (const FoundCard& card : found) {
    if (card.index) indexing.add(card);
  }
  for (const FoundCard& card : found) {
    if (!card.index) indexing.add(card);
  }
  return indexing.finish();
}

}  // namespace mgpu::plugin
