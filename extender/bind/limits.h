// Bounds of bind, with their reasons. Flags start from those that a user may change.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::extender {

// kube-scheduler waits 5 s for a verb; bind answers before that.
inline constexpr std::chrono::milliseconds kBindTimeout{4'000};
inline constexpr std::size_t kBindsInFlight = 128;
inline constexpr std::size_t kBindsQueuedMax = 4096;
// The pod of a claim that stays assumed is read again after this time.
inline constexpr std::chrono::seconds kAssumedReconcileAfter{10};
// The claim of an attempt in progress (a POST, then a GET) is not reconciled.
static_assert(2 * kBindTimeout < kAssumedReconcileAfter);
// Pods that are read at the same time: after an outage of the API server there may be thousands.
inline constexpr std::size_t kReconciliationsInFlight = 16;
// Pods kept from filter for bind, some 5 KiB each: more than are between the two at any time.
inline constexpr std::size_t kCachedPodsMax = 4096;

}  // namespace mgpu::extender
