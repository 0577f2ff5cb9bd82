// Feeds a cards file to its reader.
//
// Properties: cards are within the limits, none twice, and each gets the index that it requests; a
// file that is written of them again is read as equal; an error is one short sentence.
#include "plugin/cards/file/cards_file.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plugin/cards/card_index.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

using nlohmann::json;
using plugin::CardsFile;

// YAML reads JSON text. Nothing where a text of the file is not UTF-8.
std::string written(const CardsFile& file) try {
  const auto devices_of = [](const std::vector<plugin::DeviceNode>& nodes) {
    json list = json::array();
    for (const auto& node : nodes) {
      list.push_back({{"path", node.path}, {"hostPath", node.host_path}});
    }
    return list;
  };
  json cards = json::array();
  for (const plugin::FoundCard& card : file.inventory.cards) {
    cards.push_back({{"index", card.index->value()},
                     {"uuid", card.uuid.str()},
                     {"model", card.model},
                     {"memoryMiB", card.memory.value()},
                     {"health", card.health},
                     {"devices", devices_of(card.nodes)}});
  }
  return json{{"cards", cards}}.dump();
} catch (const json::exception&) {
  return {};
}

void expect_indices(const CardsFile& file) {
  const auto indexed = plugin::index_cards({}, file.inventory.cards, "2026-01-01T00:00:00Z");
  expect(indexed.problems.empty(), "no card is left out");
  expect(indexed.cards.size() == file.inventory.cards.size(), "each card has an index");
  for (const plugin::FoundCard& card : file.inventory.cards) {
    const auto known = indexed.known.find(*card.index);
    expect(known != indexed.known.end() && known->second.uuid == card.uuid,
           "a card has the index that it requests");
  }
}

void expect_limits(const CardsFile& file) {
  expect(file.inventory.cards.size() <= kCardsPerNodeMax, "a node has up to 64 cards");
  expect(file.use.size() == file.inventory.cards.size(), "the use of each card is known");
  for (const plugin::FoundCard& card : file.inventory.cards) {
    expect(plugin::is_card_uuid(card.uuid.str()), "a UUID can be part of a path");
    for (const auto& node : card.nodes) {
      expect(node.path.starts_with('/') && (node.path + "/").find("/../") == std::string::npos,
             "a path is absolute");
    }
  }
}

}  // namespace

MGPU_FUZZER(cards_file) {
  const auto file = plugin::parse_cards_file(input);
  if (!file) return expect_sentence(file.error().message);
  expect_limits(*file);
  expect_indices(*file);
  const std::string text = written(*file);
  if (text.empty()) return;
  const auto again = plugin::parse_cards_file(text);
  expect(again && again->inventory.cards == file->inventory.cards,
         "cards are read as they are written: " + (again ? text : again.error().message));
}

}  // namespace mgpu::fuzz
