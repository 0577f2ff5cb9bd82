// What kubectl mgpu cards shows.
#include <fmt/format.h>

#include "extender/kubectl/inspected.h"
#include "extender/kubectl/views.h"

namespace mgpu::kubectl {
namespace {

Json card_object(const InspectedNode& node, const InspectedCard& card) {
  Json json = {{"node", node.name},
               {"index", card.index},
               {"uuid", card.uuid},
               {"model", card.model},
               {"state", state_of(card)},
               {"pods", card.pods},
               {"core", amounts_json(card.core)},
               {"memoryMiB", amounts_json(card.memory)}};
  if (!card.health.empty()) json["health"] = card.health;
  return json;
}

}  // namespace

View cards_view(const std::vector<InspectedNode>& nodes) {
  View view{.table = Table({{"NODE"},
                            {"INDEX", false, true},
                            {"STATE"},
                            {"PODS", false, true},
                            {"CORE", false, true},
                            {"MEMORY (MIB)", false, true},
                            {"CORE FREE", true, true},
                            {"MEMORY FREE", true, true},
                            {"MODEL"},
                            {"UUID", true}}),
            .json = {{"items", Json::array()}},
            .empty = "The extender has no node with cards."};
  for (const InspectedNode& node : nodes) {
    for (const InspectedCard& card : node.cards) {
      const Fill core{card.core.used, card.core.capacity};
      const Fill memory{card.memory.used, card.memory.capacity};
      const std::string state = state_of(card);
      view.table.add({{node.name},
                      {std::to_string(card.index)},
                      {card.health.empty() ? state : state + ": " + card.health,
                       state == "Healthy" ? Color::kGreen : Color::kRed},
                      {std::to_string(card.pods)},
                      {used_text(card.core), color_of(core), core},
                      {used_text(card.memory), color_of(memory), memory},
                      {grouped(card.core.free)},
                      {grouped(card.memory.free)},
                      {card.model},
                      {card.uuid}});
      view.json["items"].push_back(card_object(node, card));
      view.names.push_back(fmt::format("card/{}/{}", node.name, card.index));
    }
  }
  return view;
}

}  // namespace mgpu::kubectl
