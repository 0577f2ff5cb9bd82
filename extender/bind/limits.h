// Bounds of bind, with their reasons. Those that a user may change are flags that start from these
// values.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::extender {

// kube-scheduler waits 5 s for a verb; bind must have answered before.
inline constexpr std::chrono::milliseconds kBindTimeout{4'000};
inline constexpr std::size_t kBindsInFlight = 128;
inline constexpr std::size_t kBindsQueuedMax = 4096;
// A share assumed without an outcome is looked at again after this long: the pod is read.
inline constexpr std::chrono::seconds kAssumedReconcileAfter{10};
// An attempt that is still going on (a POST, then a GET) must not be taken for one in doubt.
static_assert(2 * kBindTimeout < kAssumedReconcileAfter);
// After an API server's outage thousands of shares may be in doubt: so many pods are read at once.
inline constexpr std::size_t kReconciliationsInFlight = 16;
// Pods kept from filter for bind, some 5 KiB each: more than can lie between the two.
inline constexpr std::size_t kCachedPodsMax = 4096;

}  // namespace mgpu::extender
