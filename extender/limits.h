// Bounds of what the extender learns and remembers; the others are in common/limits.h.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace mgpu::limits {

// Kinds of card (model and size) that prices tell apart; a cluster has a handful. The tables take
// some 100 KiB for each.
inline constexpr std::size_t kCardKindsMax = 32;
inline constexpr std::size_t kCardKindsCountedMax = 1024;
// Cards of one node that prices look at together; a node with more counts as several.
inline constexpr std::size_t kFreeCardsTogetherMax = 16;
// Classes of pods that prices are made for; each costs a refresh some 50 us.
inline constexpr std::size_t kPricedClassesMax = 512;
// Pods from which the workload is learned, some 100 bytes each: weeks of a busy cluster, hours of a
// very busy one.
inline constexpr std::size_t kWorkloadWindowPods = 20'000;
// Pods that are not learned from again while they run, some 40 bytes each: more than a cluster has.
inline constexpr std::size_t kWorkloadKnownPods = 400'000;

// A market is made after so many pods seen or shares released ...
inline constexpr std::uint64_t kMarketPods = 100;
// ... or when anything has changed and the last one is this old.
inline constexpr std::chrono::seconds kMarketAge{30};
inline constexpr std::chrono::milliseconds kMarketLook{200};
// Of the keeper's time at most one part in this many and one is spent on making markets, however
// fast pods come.
inline constexpr int kMarketRest = 9;

// Shapes of requests whose answers the ledger keeps. Each takes some 40 bytes a node: 13 MB in all
// at 5,000 nodes, and 8 MB more where a market is about to come. Clusters have a few dozen shapes
// at a time.
inline constexpr std::size_t kShapesKept = 64;
// Markets that a shape may let pass without being asked for before its scores are no longer found
// ahead.
inline constexpr int kMarketsIdleMax = 8;

}  // namespace mgpu::limits
