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
  if (card.numa) json["numa"] = *card.numa;
  if (!card.links.empty()) json["links"] = card.links;
  return json;
}

}  // namespace

View cards_view(const std::vector<InspectedNode>& nodes, Time now) {
  View view{.table = Table({{"NODE"},
                            {"INDEX", false, true},
                            {"HEALTH"},
                            {"PODS", false, true},
                            {"CORE", false, true},
                            {"MEMORY (MIB)", false, true},
                            {"CORE FREE", true, true},
                            {"MEMORY FREE", true, true},
                            {"MODEL"},
                            {"NUMA", true, true},
                            {"LINKS", true},
                            {"UUID", true}}),
            .json = {{"items", Json::array()}},
            .empty = "The extender has no node with cards."};
  for (const InspectedNode& node : nodes) {
    for (const InspectedCard& card : node.cards) {
      const std::string state = state_of(card);
      view.table.add({{node.name},
                      {std::to_string(card.index)},
                      {card.health.empty() ? state : state + ": " + health_text(card.health, now),
                       color_of_state(state)},
                      {std::to_string(card.pods)},
                      used_cell(card.core),
                      used_cell(card.memory),
                      {grouped(card.core.free)},
                      {grouped(card.memory.free)},
                      {card.model},
                      {card.numa ? std::to_string(*card.numa) : ""},
                      {card.links},
                      {card.uuid}});
      view.json["items"].push_back(card_object(node, card));
      view.names.push_back(fmt::format("card/{}/{}", node.name, card.index));
    }
  }
  const NodeSums sums = sums_of(nodes);
  view.table.set_sum({{"SUM"},
                      {grouped(sums.cards)},
                      {fmt::format("{} usable, {} free", sums.usable, sums.free)},
                      {grouped(sums.pods)},
                      used_cell(sums.core),
                      used_cell(sums.memory),
                      {grouped(sums.core.free)},
                      {grouped(sums.memory.free)},
                      {},
                      {},
                      {},
                      {}});
  return view;
}

}  // namespace mgpu::kubectl
