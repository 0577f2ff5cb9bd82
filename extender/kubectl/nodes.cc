// kubectl mgpu nodes
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
  json["pods"] = node.pods;
  json["cards"] = {{"total", node.cards.size()}, {"usable", sums.usable}, {"free", sums.free}};
  json["core"] = amounts_json(sums.core);
  json["memoryMiB"] = amounts_json(sums.memory);
  json["models"] = Json::object();
  for (const auto& [model, count] : sums.models) json["models"][model] = count;
  return json;
}

class NodesVerb final : public Verb {
 public:
  std::string name() const override { return "nodes"; }
  std::string description() const override {
    return "shows the nodes with cards, and how much of their cards is taken";
  }
  void add_flags(Options& options) override {
    add_node_flags(options, choice_);
    add_output_flag(options, output_, kViewFormats);
    add_cluster_flags(options, access_);
    add_extender_flags(options, extender_);
  }
  int run(Console& console) override {
    return show_nodes(access_, extender_, choice_, output_, nodes_view, console);
  }

 private:
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
                            {"MODELS"}}),
            .json = {{"items", Json::array()}}};
  view.empty = "The extender has no node with cards.";
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
                    {models_text(sums)}});
    view.json["items"].push_back(node_object(node, sums));
    view.names.push_back("node/" + node.name);
  }
  return view;
}

int show_nodes(const ClusterFlags& access, const ExtenderFlags& flags, const NodeChoice& choice,
               const std::string& output, NodesView make, Console& console) {
  const auto cluster = Cluster::connect(access);
  if (!cluster) return fail(console, cluster.error().message);
  const auto extender = Extender::connect(**cluster, access, flags);
  if (!extender) return fail(console, extender.error().message);
  auto nodes = all_nodes(**extender);
  if (!nodes) return fail(console, nodes.error().message);
  Api api((*cluster)->transport(), access.request_timeout);
  const auto chosen = chosen_nodes(*std::move(nodes), choice, api);
  if (!chosen) return fail(console, chosen.error().message);
  show(make(*chosen), output, console);
  return kFine;
}

std::unique_ptr<Verb> nodes_verb() {
  return std::make_unique<NodesVerb>();
}

}  // namespace mgpu::kubectl
