// The node-cards value of common/contract/contract.h.
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/base/text.h"
#include "common/contract/contract.h"
#include "common/contract/limits.h"

namespace mgpu {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// The grammar needs four levels (object, cards, card, value); what lies deeper is an unknown
// member's and is not kept.
constexpr int kDepthMax = 4;

// nlohmann's way to say "no exceptions".
constexpr bool kDiscardOnError = false;

std::optional<json> parse_json(std::string_view text) {
  const auto keep = [](int depth, json::parse_event_t, const json&) { return depth <= kDepthMax; };
  json document = json::parse(text, keep, kDiscardOnError);
  if (document.is_discarded()) return std::nullopt;
  return document;
}

// The member, or null where it is absent.
const json& member(const json& object, const char* name) {
  static const json kAbsent;
  const auto found = object.find(name);
  return found == object.end() ? kAbsent : *found;
}

std::string shown(const json& value) {
  if (value.is_null()) return "nothing";
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  if (value.is_structured()) return value.type_name();
  return value.dump();
}

Error bad_member(const std::string& card, const char* name, const std::string& expected,
                 const json& found) {
  return error(card + ": " + name + " must be " + expected + ", found " + shown(found));
}

Result<std::int64_t> read_integer(const std::string& card, const json& object, const char* name,
                                  std::int64_t least, std::int64_t most) {
  const json& value = member(object, name);
  const bool whole = value.is_number_integer();
  // A number over 2^63 is stored unsigned and would wrap.
  const bool in_range =
      whole && (value.is_number_unsigned()
                    ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most) &&
                          value.get<std::int64_t>() >= least
                    : value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= most);
  if (in_range) return value.get<std::int64_t>();
  return bad_member(card, name,
                    "a whole number from " + std::to_string(least) + " to " + std::to_string(most),
                    value);
}

Result<std::string> read_text(const std::string& card, const json& object, const char* name,
                              std::size_t least) {
  const json& value = member(object, name);
  if (value.is_null() && least == 0) return std::string();
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text.size() >= least && text.size() <= kCardTextMax) return text;
  }
  return bad_member(
      card, name,
      "a string of " + std::to_string(least) + " to " + std::to_string(kCardTextMax) + " bytes",
      value);
}

// `card` names it in errors: "cards[2]".
Result<CardFacts> read_card(const std::string& card, const json& object) {
  if (!object.is_object()) return error(card + " must be an object, found " + shown(object));
  const auto index = read_integer(card, object, "index", 0, kCardIndexMax);
  if (!index) return index.error();
  const auto uuid = read_text(card, object, "uuid", 1);
  if (!uuid) return uuid.error();
  const auto model = read_text(card, object, "model", 1);
  if (!model) return model.error();
  const auto memory = read_integer(card, object, "memoryMiB", 1, kCardMemoryMiBMax);
  if (!memory) return memory.error();
  const auto health = read_text(card, object, "health", 1);
  if (!health) return health.error();
  const auto since = read_text(card, object, "since", 0);
  if (!since) return since.error();
  return CardFacts{.index = CardIndex(static_cast<std::int32_t>(*index)),
                   .uuid = CardUuid(*uuid),
                   .model = *model,
                   .memory = MiB(*memory),
                   .health = *health,
                   .since = *since};
}

Result<std::vector<CardFacts>> read_cards(const json& list) {
  if (list.size() > kCardsPerNodeMax) {
    return error("a node has at most " + std::to_string(kCardsPerNodeMax) + " cards, found " +
                 std::to_string(list.size()));
  }
  std::vector<CardFacts> cards;
  std::set<CardIndex> indices;
  std::set<CardUuid> uuids;
  for (const json& entry : list) {
    const std::string name = "cards[" + std::to_string(cards.size()) + "]";
    auto card = read_card(name, entry);
    if (!card) return card.error();
    if (!indices.insert(card->index).second) {
      return error(name + ": index " + std::to_string(card->index.value()) + " is there twice");
    }
    if (!uuids.insert(card->uuid).second) {
      return error(name + ": uuid " + in_quotes(card->uuid.str()) + " is there twice");
    }
    cards.push_back(*std::move(card));
  }
  std::sort(cards.begin(), cards.end(),
            [](const CardFacts& a, const CardFacts& b) { return a.index < b.index; });
  return cards;
}

ordered_json card_object(const CardFacts& card) {
  ordered_json object{{"index", card.index.value()},
                      {"uuid", card.uuid.str()},
                      {"model", card.model},
                      {"memoryMiB", card.memory.value()},
                      {"health", card.health}};
  if (!card.since.empty()) object["since"] = card.since;
  return object;
}

}  // namespace

Result<std::vector<CardFacts>> parse_node_cards(std::string_view text) {
  if (text.size() > kCardsAnnotationBytesMax) {
    return error("the list of cards must be at most " + std::to_string(kCardsAnnotationBytesMax) +
                 " bytes, found " + std::to_string(text.size()));
  }
  const auto document = parse_json(text);
  if (!document || !document->is_object()) {
    return error("the list of cards must be a JSON object, found " + in_quotes(text));
  }
  const json& version = member(*document, "version");
  if (version != 1) {
    return error("the list of cards must have version 1, found " + shown(version));
  }
  const json& cards = member(*document, "cards");
  if (!cards.is_array()) return error("cards must be an array, found " + shown(cards));
  return read_cards(cards);
}

std::string format_node_cards(std::span<const CardFacts> cards) {
  ordered_json list = ordered_json::array();
  for (const CardFacts& card : cards) list.push_back(card_object(card));
  const ordered_json document{{"version", 1}, {"cards", std::move(list)}};
  // Bytes that are no UTF-8 are replaced rather than thrown over.
  return document.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace mgpu
