// Bounds of the search for cards, with their reasons.
#pragma once

#include <cstdint>

namespace mgpu::extender {

// Steps of the exact packing search for pods of several containers. One step takes some 20 ns, so
// that the bound is a few milliseconds; most pods need fewer than a hundred steps.
inline constexpr std::uint32_t kPlacementStepsMax = 100'000;
// The same for all nodes of one filter together, which bounds the time under the ledger's lock.
inline constexpr std::uint32_t kFilterStepsMax = 2'000'000;

}  // namespace mgpu::extender
