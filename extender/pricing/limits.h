// Bounds of pricing, with their reasons.
#pragma once

#include <cstddef>

namespace mgpu::extender {

// Kinds of cards (model and size) with prices of their own; most clusters have fewer than ten. The
// tables take some 100 KiB for each.
inline constexpr std::size_t kCardKindsMax = 32;
// Kinds that are counted to find the most frequent ones.
inline constexpr std::size_t kCardKindsCountedMax = 1024;
// Free cards of one node that are priced together; a node with more counts as several.
inline constexpr std::size_t kFreeCardsTogetherMax = 16;
// Classes of pods with cards that have prices; each adds some 50 us to a refresh.
inline constexpr std::size_t kPricedClassesMax = 512;
// Classes that one pod adds to the workload, so that a pod of many containers does not count as
// many pods. Few pods have more than two containers with cards.
inline constexpr std::size_t kPodClassesMax = 4;

}  // namespace mgpu::extender
