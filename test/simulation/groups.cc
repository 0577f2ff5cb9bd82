#include "test/simulation/groups.h"

namespace mgpu::simulation {

std::optional<PodGroup> group_of(const kube::Pod& pod) {
  const auto label = pod.metadata.labels.find(kGroupLabel);
  const bool by_label = label != pod.metadata.labels.end();
  if (pod.pod_group.empty() && !by_label) return std::nullopt;
  const auto min_count = pod.metadata.annotations.find(kMinCount);
  if (min_count == pod.metadata.annotations.end()) return std::nullopt;
  return PodGroup{pod.metadata.name_space + "/" + (by_label ? label->second : pod.pod_group),
                  std::stoi(min_count->second), by_label};
}

}  // namespace mgpu::simulation
