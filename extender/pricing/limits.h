// Bounds of pricing, with their reasons.
#pragma once

#include <cstddef>

namespace mgpu::extender {

// Kinds of card (model and size) that prices tell apart; a cluster has a handful. The tables take
// some 100 KiB for each.
inline constexpr std::size_t kCardKindsMax = 32;
inline constexpr std::size_t kCardKindsCountedMax = 1024;
// Cards of one node that prices look at together; a node with more counts as several.
inline constexpr std::size_t kFreeCardsTogetherMax = 16;
// Classes of pods that prices are made for; each costs a refresh some 50 us.
inline constexpr std::size_t kPricedClassesMax = 512;

}  // namespace mgpu::extender
