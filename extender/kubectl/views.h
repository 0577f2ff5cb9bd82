// What the commands show, as values: pure functions from what was read.
#pragma once

#include <vector>

#include "extender/kubectl/gpu_pods.h"
#include "extender/kubectl/inspected.h"
#include "extender/kubectl/output.h"
#include "extender/kubectl/usage.h"

namespace mgpu::kubectl {

View nodes_view(const std::vector<InspectedNode>& nodes);
View cards_view(const std::vector<InspectedNode>& nodes);
// `with_namespace`: of several namespaces. `now` gives the ages.
View pods_view(const std::vector<PodRow>& pods, bool with_namespace, Time now);

// Granted against used. A container without samples has no amounts.
View top_view(const std::vector<PodRow>& pods, const Usages& usages, bool with_namespace);

// The body of the commands that show nodes: reads those that are chosen, and shows what `make`
// makes of them.
using NodesView = View (*)(const std::vector<InspectedNode>& nodes);
int show_nodes(const ClusterFlags& access, const ExtenderFlags& flags, const NodeChoice& choice,
               const std::string& output, NodesView make, Console& console);

}  // namespace mgpu::kubectl
