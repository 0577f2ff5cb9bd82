// The bounds of the latency bench, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::bench::limits {

// What an everyday API server takes to write a binding.
inline constexpr std::chrono::milliseconds kApiServerDelay{1};
// From its answer to the event that tells of it.
inline constexpr std::chrono::milliseconds kWatchDelay{1};
// Requests that differ in what the pod asks: a cluster has a few dozen kinds of pods at a time.
inline constexpr std::size_t kShapes = 8;
// Requests to one server before the other one's turn: short, so that both see the same machine.
inline constexpr std::size_t kTurn = 10;
// Not measured: caches, branch predictors and buffers come to their sizes.
inline constexpr std::size_t kWarmUp = 3 * kShapes;
// What takes long is asked less often than --requests says, but no less than this: once in ten
// times the naive extender, once in fifty what carries whole nodes.
inline constexpr std::size_t kRequestsLeast = 10;
inline constexpr std::size_t kNaiveOneIn = 10;
inline constexpr std::size_t kFullFormOneIn = 50;
// Pods that the background load deletes and makes again; rendered before the clock runs.
inline constexpr std::size_t kLoadPods = 512;
// Of the pods bound in a run, those that stay; the oldest go, so that the cluster never fills.
inline constexpr std::size_t kBoundPodsKept = 64;
// What is to be sustained, and over how many connections: each waits for its bind's answer.
inline constexpr int kBindsPerS = 1'000;
inline constexpr int kBindLanes = 4;
inline constexpr std::chrono::seconds kReadyWithin{120};
inline constexpr std::chrono::milliseconds kReadyPoll{2};

}  // namespace mgpu::bench::limits
