// Other orders in which the same pods arrive. The default policy learns from the pods that have
// arrived, so these orders show it a workload that changes. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "bench/trace/trace_files.h"

namespace mgpu::trace {

enum class ArrivalOrder : std::uint8_t {
  kDrawn,         // as arrivals_of() returns them
  kAscending,     // by requested compute, those without cards first
  kDescending,    // by requested compute, those without cards last
  kSharesFirst,   // pods without cards and parts of cards, then whole cards
  kWholeFirst,    // whole cards, then the others
  kAlternating,   // kBlockPods of whole cards, kBlockPods of the others, and so on
  kRandomBlocks,  // ascending, cut into kRandomBlocks blocks, which come in a random order
};
inline constexpr std::size_t kBlockPods = 500;
inline constexpr std::size_t kRandomBlocks = 20;

// "drawn", "ascending", "descending", "shares-first", "whole-first", "alternating",
// "random-blocks", in the order of the enumeration.
inline constexpr std::array<std::string_view, 7> kArrivalOrders{
    "drawn",       "ascending",   "descending",   "shares-first",
    "whole-first", "alternating", "random-blocks"};
// Empty for other names.
std::optional<ArrivalOrder> find_arrival_order(std::string_view name);

// `arrivals` are indices into `pods`. Pods that are equal in the order keep theirs. `seed` is that
// of random blocks.
std::vector<std::size_t> in_order(std::vector<std::size_t> arrivals,
                                  const std::vector<TracePod>& pods, ArrivalOrder order,
                                  std::uint64_t seed);

}  // namespace mgpu::trace
