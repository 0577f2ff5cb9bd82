// Bounds of learning the workload and of refreshing prices, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace mgpu::extender {

// Pods from which the workload is learned, some 100 bytes each: weeks of a busy cluster, hours of a
// very busy one.
inline constexpr std::size_t kWorkloadWindowPods = 20'000;
// Pods that are not learned from again while they run, some 40 bytes each: more than a cluster has.
inline constexpr std::size_t kWorkloadKnownPods = 400'000;
// A price snapshot is made after so many pods seen or shares released ...
inline constexpr std::uint64_t kPriceRefreshPods = 100;
// ... or when anything has changed and the last one is this old.
inline constexpr std::chrono::seconds kPriceAgeMax{30};
inline constexpr std::chrono::milliseconds kPriceRefreshPoll{200};
// Of the refresher's time at most one part in this many and one is spent on making price snapshots,
// however fast pods come.
inline constexpr int kPriceRefreshRest = 9;

}  // namespace mgpu::extender
