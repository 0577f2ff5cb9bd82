// Reads the use of containers, from a Prometheus or from the device plugins.
#pragma once

#include <string>

#include "extender/kubectl/cluster.h"
#include "extender/kubectl/plugin_access.h"
#include "extender/kubectl/waste/prometheus_use.h"
#include "extender/prometheus/access.h"

namespace mgpu::kubectl {

// Blocks; each query takes at most kQueryTimeout. Errors: no connection, or an answer that is an
// error. Warnings of Prometheus are problems.
Result<UseFacts> collect_from_prometheus(const promql::Access& access, const UseScope& scope);

// A plugin that could not be read is a problem.
UseFacts collect_from_plugins(Cluster& cluster, const ClusterFlags& access,
                              const PluginFlags& plugins, const std::string& mgpu_namespace);

}  // namespace mgpu::kubectl
