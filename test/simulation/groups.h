// Groups of pods that kube-scheduler binds together, as a pod says that it belongs to one.
#pragma once

#include <optional>
#include <string>

#include "common/kube/objects/objects.h"

namespace mgpu::simulation {

// On each pod of a group: how many of them kube-scheduler binds at least (PodGroup minCount).
inline constexpr const char* kMinCount = "simulation/min-count";

// The label of the plugin Coscheduling.
inline constexpr const char* kGroupLabel = "scheduling.x-k8s.io/pod-group";

struct PodGroup {
  std::string name;  // "d/g1"
  int min_count = 1;
  bool by_label = false;
};
// Nothing for a pod that is bound alone.
std::optional<PodGroup> group_of(const kube::Pod& pod);

}  // namespace mgpu::simulation
