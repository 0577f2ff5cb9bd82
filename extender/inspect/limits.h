// Bounds of the JSON views, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>

#include "common/http/limits.h"

namespace mgpu::extender {

// A node with eight cards of some 250 bytes each takes 2 KiB, a page of nodes 1 MiB.
inline constexpr std::size_t kInspectNodesDefault = 500;
inline constexpr std::size_t kInspectNodesMax = 5'000;
// Each node of an explanation costs a search.
inline constexpr std::size_t kExplainNodesDefault = 100;
inline constexpr std::size_t kExplainNodesMax = 1'000;
inline constexpr std::size_t kInspectDriftMax = 1'000;
// The timeout of reading the pod to explain. A drain waits for it.
inline constexpr std::chrono::milliseconds kExplainTimeout{5'000};
static_assert(kExplainTimeout < http::kDrainTimeout);

}  // namespace mgpu::extender
