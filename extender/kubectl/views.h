// What the commands show, as values: pure functions from what was read.
#pragma once

#include <vector>

#include "extender/kubectl/gpu_pods.h"
#include "extender/kubectl/inspected.h"
#include "extender/kubectl/output.h"
#include "extender/kubectl/usage.h"

namespace mgpu::kubectl {

// `now` gives the ages.
View nodes_view(const std::vector<InspectedNode>& nodes, Time now);
View cards_view(const std::vector<InspectedNode>& nodes, Time now);

// The flags of the commands that show pods.
struct ShownPods {
  ClusterFlags access{};
  PodChoice choice{};
  std::string domain{kDefaultResourceDomain};
  ViewFlags view{};
};
void add_shown_pods_flags(Options& options, ShownPods& shown);
Result<std::vector<PodRow>> read_shown_pods(Cluster& cluster, const ShownPods& shown);

// `with_namespace`: of several namespaces.
View pods_view(const std::vector<PodRow>& pods, bool with_namespace, Time now);

// The sums of the pods of each namespace, or of each owner if `by` is "owner".
View pods_by_view(const std::vector<PodRow>& pods, const std::string& by);

// Sums, and what needs attention. Text from the cluster is sanitized. `pods` may be null.
std::string overview_text(const std::vector<InspectedNode>& nodes, const std::vector<PodRow>* pods,
                          Time now, bool colors);

// Granted against used. A container without samples has no amounts.
View top_view(const std::vector<PodRow>& pods, const Usages& usages, bool with_namespace);

}  // namespace mgpu::kubectl
