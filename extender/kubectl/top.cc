// kubectl mgpu top
#include <fmt/format.h>

#include "extender/kubectl/extender_access.h"
#include "extender/kubectl/usage.h"
#include "extender/kubectl/verb.h"
#include "extender/kubectl/views.h"

namespace mgpu::kubectl {
namespace {

// "12/30"; "?/30" if the use is not known.
Cell used_of(const std::optional<double>& used, const std::optional<double>& granted) {
  if (!granted) return {};
  const std::int64_t most = nearest(*granted);
  if (!used) return {"?/" + grouped(most)};
  const Fill fill{nearest(*used), most};
  // A share that is not used is remarkable, too.
  return {grouped(fill.part) + "/" + grouped(fill.whole),
          fill.part == 0 ? Color::kYellow : color_of(fill), fill};
}

Json amount_object(const std::optional<double>& used, const std::optional<double>& granted) {
  Json json = Json::object();
  if (granted) json["granted"] = nearest(*granted);
  if (used) json["used"] = nearest(*used);
  return json;
}

class TopVerb {
 public:
  void add_flags(Options& options) {
    add_shown_pods_flags(options, shown_);
    add_plugin_flags(options, plugins_);
    add_mgpu_namespace_flag(options, "mgpu-namespace", extender_.name_space);
  }
  Result<int> run(Console& console) {
    const auto cluster = Cluster::connect(shown_.access);
    if (!cluster) return cluster.error();
    const auto pods = read_shown_pods(**cluster, shown_);
    if (!pods) return pods.error();
    PodsOfNodes nodes;
    for (const PodRow& pod : *pods) {
      if (!pod.node.empty()) nodes[pod.node].insert(pod.ref);
    }
    const ReadUsages read = read_usages(**cluster, plugins_, extender_, nodes);
    // A table without any use would say less than the reason.
    if (!shown_.view.is_table() || !read.usages.empty() || read.problems.empty()) {
      auto printed = show(top_view(*pods, read.usages, shown_.choice.all), shown_.view, console);
      if (!printed) return printed.error();
    }
    return fail(console, read.problems);
  }

 private:
  ShownPods shown_;
  PluginFlags plugins_;
  ExtenderFlags extender_;
};

}  // namespace

View top_view(const std::vector<PodRow>& pods, const Usages& usages, bool with_namespace) {
  View view{.table = Table({{.title = "NAMESPACE", .hidden = !with_namespace},
                            {"POD"},
                            {"CONTAINER"},
                            {"NODE"},
                            {"CARD", false, true},
                            {"CORE", false, true},
                            {"MEMORY (MIB)", false, true},
                            {"TIMES OVER", true, true}}),
            .json = {{"items", Json::array()}},
            .empty = "No pods with cards found."};
  for (const PodRow& pod : pods) {
    for (const PodContainerRow& container : pod.containers) {
      for (const std::int64_t card : container.indices) {
        const auto found = usages.find(
            UsageKey(pod.ref.name_space, pod.ref.name, container.name, std::to_string(card)));
        const ContainerUsage usage = found == usages.end() ? ContainerUsage() : found->second;
        view.table.add({{pod.ref.name_space},
                        {pod.ref.name},
                        {container.name},
                        {pod.node},
                        {std::to_string(card)},
                        used_of(usage.core_used, usage.core_granted),
                        used_of(usage.memory_used, usage.memory_granted),
                        {grouped(usage.over_limit)}});
        Json json = {{"namespace", pod.ref.name_space}, {"pod", pod.ref.name}};
        json["container"] = container.name;
        json["node"] = pod.node;
        json["card"] = card;
        json["core"] = amount_object(usage.core_used, usage.core_granted);
        json["memoryMiB"] = amount_object(usage.memory_used, usage.memory_granted);
        json["timesOver"] = usage.over_limit;
        view.json["items"].push_back(std::move(json));
      }
    }
    if (!pod.node.empty()) view.names.push_back("pod/" + pod.ref.name);
  }
  return view;
}

Run add_top(Options& options) {
  return add_command<TopVerb>(options);
}

}  // namespace mgpu::kubectl
