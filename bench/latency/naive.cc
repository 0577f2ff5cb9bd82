#include "bench/latency/naive.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "bench/scale/cluster_objects.h"

namespace mgpu::bench {
namespace {

using Json = nlohmann::json;

std::int64_t amount_of(const Json& resources, std::string_view ending) {
  for (const auto& [resource, amount] : resources.items()) {
    if (!resource.ends_with(ending)) continue;
    const auto text = amount.get<std::string>();
    std::int64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return text.ends_with("k") ? number * 1000 : number;
  }
  return 0;
}

}  // namespace

NaiveExtender::NaiveExtender(ClusterSize size) {
  for (std::size_t i = 0; i < size.nodes; ++i) nodes_[node_name(i)] = Cards(kCardsPerNode);
  for (std::size_t i = 0; i < size.pods; ++i) {
    const auto [node, card] = location_of_pod(i);
    Amount& used = nodes_[node_name(node)][card];
    used.core += kPodCore;
    used.memory += kPodMemoryMiB;
  }
}

std::vector<NaiveExtender::Amount> NaiveExtender::containers_of(const Json& pod) {
  std::vector<Amount> containers;
  for (const Json& container : pod["spec"]["containers"]) {
    const Json& limits = container["resources"]["limits"];
    containers.push_back({amount_of(limits, "core"), amount_of(limits, "memory")});
  }
  return containers;
}

// Places one container after the other on the fullest card with enough free resources.
bool NaiveExtender::place(Cards& used, const std::vector<Amount>& containers) {
  for (const Amount& requested : containers) {
    Amount* best = nullptr;
    for (Amount& card : used) {
      if (card.core + requested.core > 100 || card.memory + requested.memory > kCardMemoryMiB)
        continue;
      if (best == nullptr || card.core > best->core) best = &card;
    }
    if (best == nullptr) return false;
    best->core += requested.core;
    best->memory += requested.memory;
  }
  return true;
}

double NaiveExtender::fill(const Cards& used) {
  double sum = 0;
  for (const Amount& card : used)
    sum += static_cast<double>(card.core) / 100 +
           static_cast<double>(card.memory) / static_cast<double>(kCardMemoryMiB);
  return sum / 2 / static_cast<double>(used.size());
}

std::string NaiveExtender::filter(const std::string& body) const {
  const Json request = Json::parse(body);
  const auto containers = containers_of(request["Pod"]);
  const bool names = request["Nodes"].is_null();
  Json fitting = Json::array();
  Json failed = Json::object();
  for (const Json& node : names ? request["NodeNames"] : request["Nodes"]["items"]) {
    const auto name = (names ? node : node["metadata"]["name"]).get<std::string>();
    Cards used = nodes_.at(name);
    if (place(used, containers))
      fitting.push_back(node);
    else
      failed[name] = "too few cards have room";
  }
  Json reply{{"Nodes", nullptr}, {"NodeNames", nullptr}, {"FailedNodes", failed}, {"Error", ""}};
  if (names)
    reply["NodeNames"] = std::move(fitting);
  else
    reply["Nodes"] = {{"items", std::move(fitting)}};
  return reply.dump();
}

std::string NaiveExtender::prioritize(const std::string& body) const {
  const Json request = Json::parse(body);
  const auto containers = containers_of(request["Pod"]);
  Json scores = Json::array();
  double best = -1;
  std::size_t best_at = 0;
  for (const Json& node : request["NodeNames"]) {
    Cards used = nodes_.at(node.get<std::string>());
    const double score = place(used, containers) ? fill(used) : -1;
    if (score > best) best_at = scores.size();
    best = std::max(best, score);
    scores.push_back({{"Host", node}, {"Score", score < 0 ? 0 : 1 + static_cast<int>(score * 8)}});
  }
  scores[best_at]["Score"] = 10;
  return scores.dump();
}

}  // namespace mgpu::bench
