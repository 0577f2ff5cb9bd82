// Bounds of learning the workload and of refreshing prices, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace mgpu::extender {

// Pods with cards from which the workload is learned: weeks of most clusters, hours of a very busy
// one. As many pods without cards are kept beside them, 16 bytes each.
inline constexpr std::size_t kWorkloadWindowPods = 20'000;
// The memory of the pods with cards. A pod of one container takes some 200 bytes and its class some
// 400, so that ordinary pods reach the limit of pods first. The largest selector takes 16 KiB.
inline constexpr std::size_t kWorkloadWindowBytes = std::size_t{16} << 20;
// In a full window, a namespace with more than this part of it (a quarter) loses its own oldest pod
// for each one that it adds. Namespaces with less are only replaced by age.
inline constexpr std::size_t kNamespaceParts = 4;
// A namespace counts for at most as many pods as all others together, or for this many where that
// is more, so that a few pods of a new namespace do not outweigh the rest.
inline constexpr std::int64_t kNamespacePodsMin = 100;
// The memory and the CPU of one pod in the sums from which means are computed; no node has as much.
// 20,000 pods of this size are 2^55.
inline constexpr std::int64_t kLearnedAmountMax = std::int64_t{1} << 40;
// Pods that are not counted again while they run, some 40 bytes each: more than a cluster has. Pods
// with and without cards have as many each, so that neither makes the others count again.
inline constexpr std::size_t kWorkloadKnownPods = 200'000;
// A price snapshot is built after this many pods seen or claims released ...
inline constexpr std::uint64_t kPriceRefreshPods = 100;
// ... or when anything has changed and the last one is this old.
inline constexpr std::chrono::seconds kPriceAgeMax{30};
inline constexpr std::chrono::milliseconds kPriceRefreshPoll{200};
// After a refresh, the refresher waits at least this many times the duration of the refresh.
inline constexpr int kPriceRefreshRest = 9;

}  // namespace mgpu::extender
