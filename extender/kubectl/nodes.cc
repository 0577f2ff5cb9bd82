// kubectl mgpu nodes, and the command of kubectl mgpu cards
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "extender/kubectl/inspected.h"
#include "extender/kubectl/verb.h"
#include "extender/kubectl/views.h"

namespace mgpu::kubectl {
namespace {

struct NodeSums {
  Amounts core;
  Amounts memory;
  std::int64_t usable = 0;  // cards that pods may be placed on
  std::int64_t free = 0;    // of these, those that no pod holds
  std::map<std::string, std::int64_t> models;
};

void add_to(Amounts& sum, const Amounts& amounts) {
  sum.capacity += amounts.capacity;
  sum.used += amounts.used;
  sum.free += amounts.free;
}

NodeSums sums_of(const InspectedNode& node) {
  NodeSums sums;
  for (const InspectedCard& card : node.cards) {
    add_to(sums.core, card.core);
    add_to(sums.memory, card.memory);
    ++sums.models[card.model];
    if (!card.healthy || card.cordoned || card.uncertain) continue;
    ++sums.usable;
    if (card.core.used == 0 && card.memory.used == 0) ++sums.free;
  }
  return sums;
}

// "8 x A100", "4 x A100, 4 x T4"
std::string models_text(const NodeSums& sums) {
  std::string text;
  for (const auto& [model, count] : sums.models) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count,
                        model.empty() ? "unknown model" : model);
  }
  return text;
}

std::string status_of(const InspectedNode& node, const NodeSums& sums) {
  if (!node.problem.empty()) return node.problem;
  const auto unusable = static_cast<std::int64_t>(node.cards.size()) - sums.usable;
  if (node.cards.empty()) return "No cards";
  return unusable == 0 ? "OK" : fmt::format("{} not usable", unusable);
}

Json node_object(const InspectedNode& node, const NodeSums& sums) {
  Json json = {{"name", node.name}};
  if (!node.problem.empty()) json["problem"] = node.problem;
  if (!node.isolation.empty()) json["isolation"] = node.isolation;
  json["pods"] = node.pods;
  json["cards"] = {{"total", node.cards.size()}, {"usable", sums.usable}, {"free", sums.free}};
  json["core"] = amounts_json(sums.core);
  json["memoryMiB"] = amounts_json(sums.memory);
  json["models"] = Json::object();
  for (const auto& [model, count] : sums.models) json["models"][model] = count;
  return json;
}

using NodesView = View (*)(const std::vector<InspectedNode>& nodes);

// Shows the nodes that are chosen, in the view that is made of them.
class NodesVerb {
 public:
  explicit NodesVerb(NodesView make) : make_(make) {}

  void add_flags(Options& options) {
    add_node_flags(options, choice_);
    add_output_flag(options, output_, kViewFormats);
    add_cluster_flags(options, access_);
    add_extender_flags(options, extender_);
  }
  Result<int> run(Console& console) {
    const auto cluster = Cluster::connect(access_);
    if (!cluster) return cluster.error();
    const auto extender = Extender::connect(**cluster, extender_);
    if (!extender) return extender.error();
    auto nodes = all_nodes(**extender);
    if (!nodes) return nodes.error();
    const auto chosen = chosen_nodes(*std::move(nodes), choice_, (*cluster)->api());
    if (!chosen) return chosen.error();
    show(make_(*chosen), output_, console);
    return kFine;
  }

 private:
  const NodesView make_;
  ClusterFlags access_;
  ExtenderFlags extender_;
  NodeChoice choice_;
  std::string output_;
};

}  // namespace

View nodes_view(const std::vector<InspectedNode>& nodes) {
  View view{.table = Table({{"NAME"},
                            {"STATUS"},
                            {"CARDS", false, true},
                            {"FREE", false, true},
                            {"PODS", false, true},
                            {"CORE", false, true},
                            {"MEMORY (MIB)", false, true},
                            {"CORE FREE", true, true},
                            {"MEMORY FREE", true, true},
                            {.title = "ISOLATION", .wide = true},
                            {"MODELS"}}),
            .json = {{"items", Json::array()}},
            .empty = "The extender has no node with cards."};
  for (const InspectedNode& node : nodes) {
    const NodeSums sums = sums_of(node);
    const Fill core{sums.core.used, sums.core.capacity};
    const Fill memory{sums.memory.used, sums.memory.capacity};
    const std::string status = status_of(node, sums);
    view.table.add({{node.name},
                    {status, status == "OK" ? Color::kGreen : Color::kRed},
                    {std::to_string(node.cards.size())},
                    {std::to_string(sums.free)},
                    {std::to_string(node.pods)},
                    {used_text(sums.core), color_of(core), core},
                    {used_text(sums.memory), color_of(memory), memory},
                    {grouped(sums.core.free)},
                    {grouped(sums.memory.free)},
                    {node.isolation},
                    {models_text(sums)}});
    view.json["items"].push_back(node_object(node, sums));
    view.names.push_back("node/" + node.name);
  }
  return view;
}

Run add_nodes(Options& options) {
  return add_command(options, std::make_shared<NodesVerb>(nodes_view));
}

Run add_cards(Options& options) {
  return add_command(options, std::make_shared<NodesVerb>(cards_view));
}

}  // namespace mgpu::kubectl
