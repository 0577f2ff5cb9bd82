// kubectl mgpu nodes, and the command of kubectl mgpu cards
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "extender/kubectl/age.h"
#include "extender/kubectl/inspected.h"
#include "extender/kubectl/verb.h"
#include "extender/kubectl/views.h"

namespace mgpu::kubectl {
namespace {

// "8 x A100", "4 x A100, 4 x T4"
std::string models_text(const NodeSums& sums) {
  std::string text;
  for (const auto& [model, count] : sums.models) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count,
                        model.empty() ? "unknown model" : model);
  }
  return text;
}

Cell status_of(const InspectedNode& node) {
  if (!node.problem.empty()) return {node.problem, Color::kRed};
  if (node.cards.empty()) return {"No cards", Color::kYellow};
  // "1 Unhealthy, 2 Cordoned"
  std::map<std::string, std::int64_t, std::greater<>> states;
  for (const InspectedCard& card : node.cards) {
    if (state_of(card) != kHealthyState) ++states[state_of(card)];
  }
  std::vector<std::string> parts;
  const auto is_not_ready = [](const std::string& taint) {
    return taint.starts_with("node.kubernetes.io/not-ready:") ||
           taint.starts_with("node.kubernetes.io/unreachable:");
  };
  const bool ready = std::ranges::none_of(node.taints, is_not_ready);
  if (!ready) parts.emplace_back("NotReady");
  if (node.cordoned) parts.emplace_back("SchedulingDisabled");
  for (const auto& [state, count] : states) parts.push_back(fmt::format("{} {}", count, state));
  if (parts.empty()) return {"OK", Color::kGreen};
  const Color color = states.empty() ? Color::kYellow : color_of_state(states.begin()->first);
  return {fmt::format("{}", fmt::join(parts, ", ")), ready ? color : Color::kRed};
}

Json node_object(const InspectedNode& node, const NodeSums& sums) {
  Json json = {{"name", node.name}};
  if (!node.problem.empty()) json["problem"] = node.problem;
  if (!node.isolation.empty()) json["isolation"] = node.isolation;
  if (!node.compute.empty()) json["compute"] = node.compute;
  if (node.cordoned) json["cordoned"] = true;
  if (!node.taints.empty()) json["taints"] = node.taints;
  json["pods"] = node.pods;
  json["cards"] = {{"total", sums.cards}, {"usable", sums.usable}, {"free", sums.free}};
  if (sums.free_mig > 0) json["cards"]["freeMig"] = sums.free_mig;
  json["core"] = amounts_json(sums.core);
  json["memoryMiB"] = amounts_json(sums.memory);
  json["models"] = Json::object();
  for (const auto& [model, count] : sums.models) json["models"][model] = count;
  return json;
}

using NodesView = View (*)(const std::vector<InspectedNode>& nodes, Time now);

// Shows the nodes that are chosen, in the view that is made of them.
class NodesVerb {
 public:
  explicit NodesVerb(NodesView make) : make_(make) {}

  void add_flags(Options& options) {
    add_node_flags(options, choice_);
    add_view_flags(options, shown_);
    add_cluster_flags(options, access_);
    add_extender_flags(options, extender_);
  }
  Result<int> run(Console& console) {
    const auto cluster = Cluster::connect(access_, extender_.url);
    if (!cluster) return cluster.error();
    const auto extender = Extender::connect(**cluster, extender_);
    if (!extender) return extender.error();
    auto nodes = all_nodes(**extender);
    if (!nodes) return nodes.error();
    const auto chosen = chosen_nodes(*std::move(nodes), choice_, (*cluster)->api());
    if (!chosen) return chosen.error();
    if (auto printed = show(make_(*chosen, clock_now()), shown_, console); !printed)
      return printed.error();
    return kSucceeded;
  }

 private:
  const NodesView make_;
  ClusterFlags access_;
  ExtenderFlags extender_;
  NodeChoice choice_;
  ViewFlags shown_;
};

}  // namespace

View nodes_view(const std::vector<InspectedNode>& nodes, Time) {
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
                            {.title = "COMPUTE", .wide = true},
                            {.title = "TAINTS", .wide = true},
                            {"MODELS"}}),
            .json = {{"items", Json::array()}},
            .empty = "The extender has no node with cards."};
  const auto row = [](const InspectedNode& node, Cell status,
                      const NodeSums& sums) -> std::vector<Cell> {
    return {{node.name},
            std::move(status),
            {grouped(sums.cards)},
            {sums.free_mig == 0
                 ? grouped(sums.free)
                 : fmt::format("{} + {} MIG", grouped(sums.free), grouped(sums.free_mig))},
            {grouped(sums.pods)},
            used_cell(sums.core),
            used_cell(sums.memory),
            {grouped(sums.core.free)},
            {grouped(sums.memory.free)},
            {node.isolation},
            {node.compute},
            {fmt::format("{}", fmt::join(node.taints, ","))},
            {models_text(sums)}};
  };
  for (const InspectedNode& node : nodes) {
    const NodeSums sums = sums_of({node});
    view.table.add(row(node, status_of(node), sums));
    view.json["items"].push_back(node_object(node, sums));
    view.names.push_back("node/" + node.name);
  }
  view.table.set_sum(row({.name = "SUM"}, {}, sums_of(nodes)));
  return view;
}

Run add_nodes(Options& options) {
  return add_command(options, std::make_shared<NodesVerb>(nodes_view));
}

Run add_cards(Options& options) {
  return add_command(options, std::make_shared<NodesVerb>(cards_view));
}

}  // namespace mgpu::kubectl
