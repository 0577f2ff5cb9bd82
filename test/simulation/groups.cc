#include "test/simulation/groups.h"

namespace mgpu::simulation {

std::optional<PodGroup> group_of(const kube::Pod& pod) {
  if (pod.pod_group.empty()) return std::nullopt;
  const auto min_count = pod.metadata.annotations.find(kMinCount);
  if (min_count == pod.metadata.annotations.end()) return std::nullopt;
  return PodGroup{pod.metadata.name_space + "/" + pod.pod_group, std::stoi(min_count->second)};
}

}  // namespace mgpu::simulation
