// What the device plugins answer on their service listeners, through forwarded ports or at URLs.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "extender/kubectl/extender_access.h"

namespace mgpu::kubectl {

struct PluginFlags {
  std::vector<std::string> urls{};  // of plugins outside of pods
  std::int64_t port = 9801;
};
// --plugin-url and --plugin-metrics-port.
void add_plugin_flags(Options& options, PluginFlags& flags);

// A request to plugins.
struct PluginQuery {
  std::string path;                    // "/metrics"
  std::string what;                    // begins the sentence of a problem: "read the metrics"
  const std::set<std::string>* nodes;  // null: all nodes
};

struct PluginAnswer {
  std::string node{};  // empty at a URL
  Fact<std::string> body{};
};

struct PluginAnswers {
  std::vector<PluginAnswer> answers{};
  std::string problem{};            // why the plugins were not found; empty: they were
  std::string name_space{};         // of mgpu
  std::set<std::string> running{};  // the nodes on which plugins run, queried or not
  std::size_t not_asked = 0;        // plugins over kPluginsMax

  // A sentence about those of `nodes` on which no plugin runs; empty if there are none.
  std::string missing_on(const std::set<std::string>& nodes) const;
};

// Queries the plugins in the namespace of mgpu, which is found if it is empty, by kubectl
// port-forward, at most kPluginsAtOnce at a time; or those at the URLs of the flags. They do not
// get the token of the kubeconfig.
PluginAnswers ask_plugins(Cluster& cluster, const PluginFlags& flags, const ExtenderFlags& extender,
                          const PluginQuery& query);

}  // namespace mgpu::kubectl
