#include "extender/kubectl/usage.h"

#include <fmt/format.h>

#include <algorithm>

#include "extender/kubectl/doctor/read_facts.h"

namespace mgpu::kubectl {
namespace {

constexpr double kBytesOfMiB = 1024.0 * 1024.0;
constexpr double kPercents = 100;

void add_read(const Fact<MetricSamples>& metrics, const std::set<PodRef>* pods, ReadUsages& read) {
  if (metrics.known()) {
    add_usages(metrics.value(), read.usages, pods);
  } else {
    read.problems.push_back(metrics.problem());
  }
}

}  // namespace

void add_usages(const MetricSamples& samples, Usages& usages, const std::set<PodRef>* pods) {
  for (const MetricSample& sample : samples) {
    if (!sample.name.starts_with("mgpu_container_")) continue;
    const PodRef pod{text_or_empty(sample.labels, "namespace"),
                     text_or_empty(sample.labels, "pod")};
    if (pods != nullptr && !pods->contains(pod)) continue;
    const UsageKey key(
        text_or_empty(sample.labels, "namespace"), text_or_empty(sample.labels, "pod"),
        text_or_empty(sample.labels, "container"), text_or_empty(sample.labels, "index"));
    ContainerUsage& usage = usages[key];
    if (sample.name == "mgpu_container_memory_limit_bytes") {
      usage.memory_granted = sample.value / kBytesOfMiB;
    } else if (sample.name == "mgpu_container_memory_used_bytes") {
      usage.memory_used = sample.value / kBytesOfMiB;
    } else if (sample.name == "mgpu_container_core_limit_ratio") {
      usage.core_granted = sample.value * kPercents;
    } else if (sample.name == "mgpu_container_sm_utilization_ratio") {
      usage.core_used = sample.value * kPercents;
    } else if (sample.name == "mgpu_container_over_limit_total") {
      constexpr double kCountMax = 1e15;
      const bool is_count = sample.value >= 0 && sample.value < kCountMax;
      const bool has_room = usage.over_limit < static_cast<std::int64_t>(kCountMax);
      usage.over_limit += is_count && has_room ? static_cast<std::int64_t>(sample.value) : 0;
    }
  }
}

ReadUsages read_usages(Cluster& cluster, const PluginFlags& flags, const ExtenderFlags& extender,
                       const PodsOfNodes& nodes) {
  ReadUsages read;
  if (flags.urls.empty() && nodes.empty()) return read;
  std::set<std::string> names;
  for (const auto& [node, pods] : nodes) names.insert(node);
  const PluginAnswers plugins =
      ask_plugins(cluster, flags, extender, {"/metrics", "read the metrics", &names});
  if (!plugins.problem.empty()) read.problems.push_back(plugins.problem);
  const std::string missing = plugins.missing_on(names);
  if (flags.urls.empty() && plugins.problem.empty() && !missing.empty()) {
    read.problems.push_back(missing);
  }
  for (const PluginAnswer& plugin : plugins.answers) {
    add_read(read_fact(plugin.body, "the metrics of a device plugin", parse_metrics),
             plugin.node.empty() ? nullptr : &nodes.at(plugin.node), read);
  }
  if (plugins.not_asked > 0) {
    read.problems.push_back(
        fmt::format("the pods are on {} nodes, of which {} were asked; -n, -l or the names of pods "
                    "select fewer",
                    nodes.size(), plugins.answers.size()));
  }
  return read;
}

}  // namespace mgpu::kubectl
