// Bounds of the ledger, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::extender {

// How long an expected placement is believed: longer than any gap between filter and bind seen.
inline constexpr std::chrono::milliseconds kExpectedPlacementLife{1'000};
inline constexpr std::size_t kExpectedPlacementsMax = 4096;
// Objects of a relist that are applied under one hold of the ledger's lock: a millisecond or two.
inline constexpr std::size_t kRelistStep = 256;
// Shapes of requests whose answers the ledger keeps. Each takes some 40 bytes a node: 13 MB in all
// at 5,000 nodes, and 8 MB more where a price snapshot is about to come. Clusters have a few dozen
// shapes at a time.
inline constexpr std::size_t kRequestKeysMax = 64;
// Markets that a shape may let pass without being asked for before its scores are no longer found
// ahead.
inline constexpr int kIdleRefreshesMax = 8;

}  // namespace mgpu::extender
