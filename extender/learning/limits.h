// Bounds of learning the workload and of refreshing prices, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace mgpu::extender {

// Pods from which the workload is learned, some 100 bytes each: weeks of most clusters, hours of a
// very busy one.
inline constexpr std::size_t kWorkloadWindowPods = 20'000;
// Pods that are not counted again while they run, some 40 bytes each: more than a cluster has.
inline constexpr std::size_t kWorkloadKnownPods = 400'000;
// A price snapshot is built after this many pods seen or claims released ...
inline constexpr std::uint64_t kPriceRefreshPods = 100;
// ... or when anything has changed and the last one is this old.
inline constexpr std::chrono::seconds kPriceAgeMax{30};
inline constexpr std::chrono::milliseconds kPriceRefreshPoll{200};
// After a refresh, the refresher waits at least this many times the duration of the refresh.
inline constexpr int kPriceRefreshRest = 9;

}  // namespace mgpu::extender
