#include "bench/trace/placements.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/base/text.h"

namespace mgpu::trace {
namespace {

// ordered_json keeps the order in which members are added.
using Json = nlohmann::ordered_json;

Json json_of_node(const Objects& objects, std::size_t index, const NodeName& name) {
  const TraceNode& node = objects.trace().nodes[index];
  return {{"name", name.str()},
          {"cpu_milli", node.resources.cpu.value()},
          {"memory_mib", node.resources.memory.value()},
          {"model", node.model},
          {"cards", node.cards},
          {"card_memory_mib", objects.card_memory(node.model).value()}};
}

Json cards_of(const Placement& placement) {
  Json cards = Json::array();
  for (const auto& container : placement.cards_of)
    for (const CardIndex card : container) cards.push_back(card.value());
  return cards;
}

Json json_of_arrival(const Objects& objects, const Arrivals& run, const Arrival& arrival) {
  const TracePod& pod = objects.trace().pods[arrival.pod];
  return {{"pod", pod.name},
          {"cpu_milli", pod.resources.cpu.value()},
          {"memory_mib", pod.resources.memory.value()},
          {"core", pod.total_milli() / 10},
          {"gpu_memory_mib", objects.share_memory(arrival.pod).value() * pod.cards},
          {"models", pod.models},
          {"node", arrival.node ? Json(run.nodes[*arrival.node].str()) : Json()},
          {"cards", cards_of(arrival.cards)}};
}

Json json_of_run(const Objects& objects, const Arrivals& run) {
  Json json{{"seed", run.seed}, {"nodes", Json::array()}, {"arrivals", Json::array()}};
  for (std::size_t node = 0; node < run.nodes.size(); ++node)
    json["nodes"].push_back(json_of_node(objects, node, run.nodes[node]));
  for (const Arrival& arrival : run.pods)
    json["arrivals"].push_back(json_of_arrival(objects, run, arrival));
  return json;
}

}  // namespace

std::string placements_json(const Objects& objects, const std::vector<Arrivals>& seeds) {
  Json json{{"seeds", Json::array()}};
  for (const Arrivals& seed : seeds) json["seeds"].push_back(json_of_run(objects, seed));
  return json.dump() + "\n";
}

Result<void> write_text_file(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << std::flush;
  if (!file) return error(in_quotes(path) + " cannot be written: " + std::strerror(errno));
  return {};
}

}  // namespace mgpu::trace
