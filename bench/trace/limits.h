// Limits of the input of `mgpu-sim trace`, with their reasons.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mgpu::trace::limits {

// The largest file of openb has 0.8 MB.
inline constexpr std::size_t kFileBytesMax = std::size_t{64} << 20;
inline constexpr std::size_t kLineBytesMax = 4096;
inline constexpr std::size_t kColumnsMax = 64;
inline constexpr std::size_t kNodesMax = 20'000;
inline constexpr std::size_t kPodsMax = 1'000'000;
// Arrivals in one run. Without this limit, a list in which almost no pod requests cards would need
// almost infinitely many arrivals.
inline constexpr std::size_t kArrivalsMax = 2'000'000;
inline constexpr std::int64_t kCardsPerNodeMax = 64;
inline constexpr std::int64_t kMilliCpuMax = 1'000'000'000;  // a million cores
inline constexpr std::int64_t kMemoryMiBMax = std::int64_t{1} << 30;
inline constexpr std::size_t kSeedsMax = 1000;
inline constexpr std::int64_t kSeedMax = 1'000'000'000;
inline constexpr std::int64_t kJobsMax = 256;
inline constexpr std::int64_t kArrivedUntilMax = 1000;
inline constexpr std::int64_t kDeparturesMax = 1000;
// Classes of pods in a known workload. The lists of openb have about 460.
inline constexpr std::size_t kClassesMax = 10'000;
// Trace names that one error message lists.
inline constexpr std::size_t kNamesListedMax = 64;

}  // namespace mgpu::trace::limits
