// Bounds of the verbs, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>

#include "common/base/executor.h"

namespace mgpu::extender {

// How long a pod avoids a node that has refused it: at first longer than kube-scheduler's backoff,
// in the end so long that the node is hardly tried.
inline constexpr Duration kAvoidanceFirst = std::chrono::minutes(1);
inline constexpr Duration kAvoidanceMax = std::chrono::minutes(16);
// A rack. With more the one that ends first is tried again.
inline constexpr std::size_t kAvoidedNodesMax = 8;
// Pods that were answered and are not bound, of which the latest are remembered: at most 10 MB,
// with names of nodes of 253 bytes.
inline constexpr std::size_t kAnsweredPodsMax = 4'096;

}  // namespace mgpu::extender
