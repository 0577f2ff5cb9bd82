// kubectl mgpu drift
#include "extender/kubectl/drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "extender/kubectl/age.h"
#include "extender/kubectl/extender_access.h"
#include "extender/kubectl/limits.h"
#include "extender/kubectl/plugin_access.h"
#include "extender/kubectl/verb.h"

namespace mgpu::kubectl {
namespace {

// What was read, and one sentence for each part that was not.
struct DriftOfCluster {
  std::vector<DriftItem> items;
  std::vector<std::string> problems;
  std::set<std::string> nodes;  // those with cards, as far as the extender is known
};

void add_drift(Result<ReadDrift> read, const std::string& reporter, DriftOfCluster& all) {
  if (!read) {
    all.problems.push_back(fmt::format("{}: {}", reporter, read.error().message));
    return;
  }
  std::ranges::move(read->items, std::back_inserter(all.items));
  if (read->left_out > 0) {
    all.problems.push_back(
        fmt::format("{} has {} more findings, which are not listed", reporter, read->left_out));
  }
}

class DriftVerb {
 public:
  void add_flags(Options& options) {
    add_pod_flags(options, choice_);
    options.add_texts("node", "Node whose findings are shown. If absent, all are shown.", nodes_);
    add_view_flags(options, shown_);
    add_cluster_flags(options, access_);
    add_extender_flags(options, extender_);
    add_plugin_flags(options, plugins_);
    options.check([this]() -> Result<void> {
      for (const std::string& node : nodes_) {
        if (auto checked = check_name("--node", node); !checked) return checked;
      }
      return {};
    });
  }
  Result<int> run(Console& console) {
    const auto cluster = Cluster::connect(access_);
    if (!cluster) return cluster.error();
    DriftChoice choice{.pods = choice_,
                       .name_space = namespace_of(choice_.name_space, (*cluster)->config()),
                       .nodes = {nodes_.begin(), nodes_.end()}};
    if (!choice_.selector.empty()) {
      auto selected = selected_pods((*cluster)->api(), choice_, choice.name_space);
      if (!selected) return selected.error();
      choice.selected = std::move(*selected);
    }
    DriftOfCluster all;
    read_extender(**cluster, all);
    read_plugins(**cluster, choice.nodes, all);
    const auto items = chosen_drift(std::move(all.items), choice);
    View view = drift_view(items, choice_.all, clock_now());
    if (!all.problems.empty()) view.empty = "No drift found in what could be read.";
    if (auto printed = show(std::move(view), shown_, console); !printed) return printed.error();
    if (shown_.output == "table" && !items.empty()) {
      console.print("\n-o wide shows what to do about each finding.\n");
    }
    const int read = fail(console, all.problems);
    return items.empty() ? read : kFoundOrFailed;
  }

 private:
  void read_extender(Cluster& cluster, DriftOfCluster& all) const {
    const auto extender = Extender::connect(cluster, extender_);
    if (!extender) {
      all.problems.push_back(extender.error().message);
      return;
    }
    Json first;
    const auto nodes = all_nodes(**extender, &first);
    if (!nodes) {
      all.problems.push_back(nodes.error().message);
      return;
    }
    for (const InspectedNode& node : *nodes) {
      if (!node.cards.empty()) all.nodes.insert(node.name);
    }
    add_drift(extender_drift(first, *nodes), "the extender", all);
  }

  void read_plugins(Cluster& cluster, const std::set<std::string>& chosen,
                    DriftOfCluster& all) const {
    const PluginAnswers plugins =
        ask_plugins(cluster, plugins_, extender_,
                    {"/drift", "read the drift", chosen.empty() ? nullptr : &chosen});
    if (!plugins.problem.empty()) all.problems.push_back(plugins.problem);
    for (const PluginAnswer& plugin : plugins.answers) {
      if (plugin.body.known()) {
        add_drift(
            plugin_drift(plugin.body.value(), plugin.node),
            plugin.node.empty() ? "a device plugin" : "the device plugin of node " + plugin.node,
            all);
      } else {
        all.problems.push_back(plugin.body.problem());
      }
    }
    if (plugins.not_asked > 0) {
      all.problems.push_back(
          fmt::format("{} device plugins were asked and {} were not; --node "
                      "names the nodes",
                      plugins.answers.size(), plugins.not_asked));
    }
    if (plugins_.urls.empty() && plugins.problem.empty()) {
      const std::string missing = plugins.missing_on(chosen.empty() ? all.nodes : chosen);
      if (!missing.empty()) all.problems.push_back(missing);
    }
  }

  ClusterFlags access_;
  ExtenderFlags extender_;
  PluginFlags plugins_;
  PodChoice choice_;
  std::vector<std::string> nodes_;
  ViewFlags shown_;
};

}  // namespace

Run add_drift(Options& options) {
  return add_command<DriftVerb>(options);
}

}  // namespace mgpu::kubectl
