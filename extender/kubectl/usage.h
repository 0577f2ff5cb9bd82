// What containers use of the cards that they were granted, from the metrics of the device plugins.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "extender/kubectl/cluster.h"
#include "extender/kubectl/doctor/metrics_text.h"
#include "extender/kubectl/gpu_pods.h"
#include "extender/kubectl/plugin_access.h"

namespace mgpu::kubectl {

// A container on one card. A value that the plugin does not report is not set.
struct ContainerUsage {
  std::optional<double> core_granted{};    // percent of the card
  std::optional<double> core_used{};       // percent of the card
  std::optional<double> memory_granted{};  // MiB
  std::optional<double> memory_used{};     // MiB
  std::int64_t over_limit = 0;             // how often it used more than was granted
};

// Namespace, pod, container, and the index of the card.
using UsageKey = std::tuple<std::string, std::string, std::string, std::string>;
using Usages = std::map<UsageKey, ContainerUsage>;

// Adds the samples of one plugin. Other metrics are skipped, and samples of pods that are not in
// `pods`, if it is given: a plugin reports its own node only. Pure.
void add_usages(const MetricSamples& samples, Usages& usages,
                const std::set<PodRef>* pods = nullptr);

// The pods whose usage is read, by their nodes.
using PodsOfNodes = std::map<std::string, std::set<PodRef>>;

struct ReadUsages {
  Usages usages;
  std::vector<std::string> problems;  // a sentence for each plugin that was not read
};

// The metrics of the plugins on these nodes, by kubectl port-forward, at most kPluginsAtOnce at a
// time; or at the URLs of the flags.
ReadUsages read_usages(Cluster& cluster, const PluginFlags& flags, const ExtenderFlags& extender,
                       const PodsOfNodes& nodes);

}  // namespace mgpu::kubectl
