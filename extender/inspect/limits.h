// Bounds of the JSON views, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "common/http/limits.h"

namespace mgpu::extender {

// Requests that are answered or wait for an answer; one is answered at a time. More are refused,
// since each may take as long as an explanation.
inline constexpr std::size_t kInspectionsMax = 8;
// A node with eight cards of some 250 bytes each takes 2 KiB, a page of nodes 1 MiB.
inline constexpr std::size_t kInspectNodesDefault = 500;
inline constexpr std::size_t kInspectNodesMax = 5'000;
// Each node of an explanation costs a search.
inline constexpr std::size_t kExplainNodesDefault = 100;
inline constexpr std::size_t kExplainNodesMax = 1'000;
// Steps (placement/limits.h) of one explanation for the nodes of its page, and as many for the
// reasons of all nodes: half a second each. Ordinary pods take some hundred steps for each node.
inline constexpr std::uint32_t kExplainStepsMax = 25'000'000;
// The time of one explanation, in case that the steps take longer on a busy machine.
inline constexpr std::chrono::milliseconds kExplainTimeMax{3'000};
// Cards times containers of one page, of some 250 bytes each: 5 MiB of JSON.
inline constexpr std::size_t kExplainRowsMax = 20'000;
// Nodes and pods that an explanation proposes as the nearest.
inline constexpr std::size_t kNearestMax = 5;
// Replicas of a simulation whose cards are answered, of some 100 bytes each.
inline constexpr std::size_t kSimulateReplicasMax = 1'000;
// Pods that a simulation places to find how many fit: each compares the scores of all nodes.
inline constexpr std::size_t kSimulatedPodsMax = 10'000;
inline constexpr std::size_t kInspectDriftMax = 1'000;
// Pods that the sentence about an overfull card names. It is also an Event, which has a bound.
inline constexpr std::size_t kOverfullPodsMax = 8;
// Pods of its namespace that the Event of a pending pod names, for whose release it could be bound.
inline constexpr std::size_t kPendingTextPodsMax = 3;
// The timeout of reading the pod to explain. A drain waits for it.
inline constexpr std::chrono::milliseconds kExplainTimeout{5'000};
static_assert(kExplainTimeout + kExplainTimeMax < http::kDrainTimeout);

}  // namespace mgpu::extender
