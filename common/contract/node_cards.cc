// The node-cards value of common/contract/contract.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/text.h"
#include "common/contract/contract.h"
#include "common/contract/limits.h"

namespace mgpu {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// The grammar has four levels (object, cards, card, value). Deeper values belong to unknown members
// and are discarded.
constexpr int kDepthMax = 4;

// The member, or null if it is absent.
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

// Reads the members of an object and keeps the first error.
class MemberReader {
 public:
  // `card` begins the sentence of an error: "cards[2]: ".
  MemberReader(std::string card, const json& object) : card_(std::move(card)), object_(object) {}

  // REQUIRES: least >= 0.
  std::int64_t integer(const char* name, std::int64_t least, std::int64_t most) {
    MGPU_DEBUG_CHECK(0 <= least && least <= most, "a number has a range from 0 on");
    const json& value = member(object_, name);
    // A number over 2^63 - 1 becomes a negative one.
    const auto number = value.is_number_integer() ? value.get<std::int64_t>() : -1;
    if (number >= least && number <= most) return number;
    fail(name, fmt::format("a whole number from {} to {}", least, most), value);
    return least;
  }
  // `least` if it is absent.
  std::int64_t optional(const char* name, std::int64_t least, std::int64_t most) {
    return member(object_, name).is_null() ? least : integer(name, least, most);
  }
  std::string text(const char* name, std::size_t least, std::size_t most = kCardTextMax) {
    const json& value = member(object_, name);
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    const bool legal = value.is_string() || (value.is_null() && least == 0);
    if (legal && text.size() >= least && text.size() <= most) return text;
    fail(name, fmt::format("a string of {} to {} bytes", least, most), value);
    return "";
  }
  bool has(const char* name) const { return !member(object_, name).is_null(); }
  // False if it is absent.
  bool flag(const char* name) {
    const json& value = member(object_, name);
    if (!value.is_null() && !value.is_boolean()) fail(name, "true or false", value);
    return value.is_boolean() && value.get<bool>();
  }
  // Empty if all members are valid.
  const std::string& problem() const { return problem_; }

 private:
  void fail(const char* name, const std::string& expected, const json& found) {
    if (!problem_.empty()) return;
    problem_ = fmt::format("{}{} must be {}, found {}", card_, name, expected, shown(found));
  }

  std::string card_;
  const json& object_;
  std::string problem_;
};

Result<std::vector<CardFacts>> read_cards(const json& list) {
  if (list.size() > kCardsPerNodeMax) {
    return error(
        fmt::format("a node has at most {} cards, found {}", kCardsPerNodeMax, list.size()));
  }
  std::vector<CardFacts> cards;
  std::set<CardIndex> indices;
  std::set<CardUuid> uuids;
  for (const json& entry : list) {
    const std::string name = fmt::format("cards[{}]", cards.size());
    if (!entry.is_object()) return error(name + " must be an object, found " + shown(entry));
    MemberReader read(name + ": ", entry);
    CardFacts card{
        .index = CardIndex(static_cast<std::int32_t>(read.integer("index", 0, kCardIndexMax))),
        .uuid = CardUuid(read.text("uuid", 1)),
        .model = read.text("model", 1),
        .memory = MiB(read.integer("memoryMiB", 1, kCardMemoryMiBMax)),
        .health = read.text("health", 1),
        .since = read.text("since", 0),
        .core = Percent(read.optional("corePercent", kWholeCard.value(), kCardCoreMax))};
    if (read.has("numa")) {
      card.numa = static_cast<std::int32_t>(read.integer("numa", 0, kNumaNodeMax));
    }
    if (!read.problem().empty()) return error(read.problem());
    if (!indices.insert(card.index).second) {
      return error(fmt::format("{}: index {} is used twice", name, card.index.value()));
    }
    if (!uuids.insert(card.uuid).second) {
      return error(fmt::format("{}: uuid {} is used twice", name, in_quotes(card.uuid.str())));
    }
    cards.push_back(std::move(card));
  }
  std::ranges::sort(cards, {}, &CardFacts::index);
  MGPU_DEBUG_CHECK(std::ranges::adjacent_find(cards, std::ranges::greater_equal(),
                                              &CardFacts::index) == cards.end(),
                   "the cards of a node are ascending by index, each once");
  return cards;
}

Result<NodeProfile> read_profile(const json& document) {
  MemberReader read("", document);
  NodeProfile profile{.name = read.text("profile", 0),
                      .problem = read.text("profileProblem", 0, kProfileProblemMax),
                      .isolation = read.text("isolation", 0),
                      .compute = read.text("compute", 0),
                      .policy = read.text("policy", 0),
                      .minimum = {Percent(read.optional("minimumCore", 0, kWholeCard.value())),
                                  MiB(read.optional("minimumMemoryMiB", 0, kCardMemoryMiBMax))},
                      .parts_of_one_card = read.flag("partsOfOneCard")};
  if (!read.problem().empty()) return error(read.problem());
  return profile;
}

// Empty if there are none.
Result<CardLinks> read_links(const json& document, std::size_t cards) {
  const json& links = member(document, "links");
  if (links.is_null()) return CardLinks();
  if (!links.is_string()) return error("links must be a string, found " + shown(links));
  return CardLinks::parse(links.get_ref<const std::string&>(), cards);
}

// Absent members stand for the values of a node without a profile.
void add_profile(ordered_json& document, const NodeProfile& profile) {
  const auto add_text = [&](const char* name, const std::string& text) {
    if (!text.empty()) document[name] = text;
  };
  add_text("profile", profile.name);
  add_text("profileProblem", profile.problem);
  add_text("isolation", profile.isolation);
  add_text("compute", profile.compute);
  add_text("policy", profile.policy);
  if (!profile.minimum.core.zero()) document["minimumCore"] = profile.minimum.core.value();
  if (!profile.minimum.memory.zero()) document["minimumMemoryMiB"] = profile.minimum.memory.value();
  if (profile.parts_of_one_card) document["partsOfOneCard"] = true;
}

}  // namespace

Result<NodeCards> parse_node_annotation(std::string_view text) {
  if (text.size() > kCardsAnnotationBytesMax) {
    return error(fmt::format("the list of cards must be at most {} bytes, found {}",
                             kCardsAnnotationBytesMax, text.size()));
  }
  const auto keep = [](int depth, json::parse_event_t, const json&) { return depth <= kDepthMax; };
  constexpr bool kExceptions = false;
  const json document = json::parse(text, keep, kExceptions);
  if (!document.is_object()) {
    return error("the list of cards must be a JSON object, found " + in_quotes(text));
  }
  const json& version = member(document, "version");
  if (version != 1) {
    return error("the list of cards must have version 1, found " + shown(version));
  }
  const json& cards = member(document, "cards");
  if (!cards.is_array()) return error("cards must be an array, found " + shown(cards));
  auto read = read_cards(cards);
  if (!read) return read.error();
  auto profile = read_profile(document);
  if (!profile) return profile.error();
  auto links = read_links(document, read->size());
  if (!links) return links.error();
  return NodeCards{*std::move(read), *std::move(profile), *std::move(links)};
}

Result<std::vector<CardFacts>> parse_node_cards(std::string_view text) {
  auto read = parse_node_annotation(text);
  if (!read) return read.error();
  return std::move(read->cards);
}

std::string format_node_cards(std::span<const CardFacts> cards, const NodeProfile& profile,
                              const CardLinks& links) {
  MGPU_CHECK(links.empty() || links.cards() == cards.size(), "the links are of other cards");
  ordered_json list = ordered_json::array();
  for (const CardFacts& card : cards) {
    list.push_back({{"index", card.index.value()},
                    {"uuid", card.uuid.str()},
                    {"model", card.model},
                    {"memoryMiB", card.memory.value()},
                    {"health", card.health}});
    if (!card.since.empty()) list.back()["since"] = card.since;
    if (card.core != kWholeCard) list.back()["corePercent"] = card.core.value();
    if (card.numa) list.back()["numa"] = *card.numa;
  }
  ordered_json document{{"version", 1}};
  add_profile(document, profile);
  if (links.cards() > 1) document["links"] = links.text();
  document["cards"] = std::move(list);
  // Invalid UTF-8 is replaced, because dump() would throw an exception.
  return document.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace mgpu
