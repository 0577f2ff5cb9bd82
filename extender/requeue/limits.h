// Bounds of delayed rejections and of requeues, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::extender {

// How long a rejection waits for a release that kube-scheduler may have seen first. Two watches
// are milliseconds apart, and tens of milliseconds when the API server is busy.
inline constexpr std::chrono::milliseconds kRejectionDelay{50};
inline constexpr std::chrono::milliseconds kRejectionDelayMax{150};
// The part of kube-scheduler's time that delays may take, and how much of it at once.
inline constexpr int kRejectionDelayPercent = 10;
inline constexpr std::chrono::milliseconds kRejectionDelayAllowance{500};
inline constexpr std::size_t kDelayedRejectionsMax = 256;
inline constexpr std::size_t kRejectionsRememberedMax = 16'384;
// After a release that kube-scheduler observes, it filters the pod again within milliseconds.
inline constexpr std::chrono::milliseconds kRequeueDelay{1'000};
// While kube-scheduler calls filter, the pod may be the next in its queue.
inline constexpr std::chrono::milliseconds kRequeueQuiet{500};
// No backoff of kube-scheduler is longer than this (podMaxBackoffSeconds).
inline constexpr std::chrono::milliseconds kRequeueDelayMax{10'000};
static_assert(kRequeueDelay < kRequeueDelayMax && kRequeueQuiet < kRequeueDelay);
// How often the ledger's counts are read while rejected pods wait.
inline constexpr std::chrono::milliseconds kRequeuePoll{500};
// Each requeue makes kube-scheduler try all unschedulable pods, so there must be few.
inline constexpr std::chrono::milliseconds kRequeueInterval{1'000};
inline constexpr std::chrono::milliseconds kRequeueTimeout{5'000};
// The time between retries doubles, from kRequeueRetryFirst up to kRequeueRetryMax.
inline constexpr std::chrono::milliseconds kRequeueRetryFirst{1'000};
inline constexpr std::chrono::milliseconds kRequeueRetryMax{60'000};
// kube-scheduler flushes unschedulable pods after five minutes, and checks twice a minute: a pod
// that it has not filtered for longer no longer exists.
inline constexpr std::chrono::milliseconds kRequeueRememberedFor{360'000};
inline constexpr std::size_t kRequeuePodsMax = kRejectionsRememberedMax;
// The same for the pods that are counted by what they wait for.
inline constexpr std::chrono::milliseconds kRejectedPodLife = kRequeueRememberedFor;
inline constexpr std::size_t kRejectedPodsMax = kRejectionsRememberedMax;
// How long pods may wait for a node that kube-scheduler has not examined, which is ten requeues,
// and when they may do so again.
inline constexpr std::chrono::milliseconds kSearchTime{10'000};
inline constexpr std::chrono::milliseconds kSearchAgainAfter{60'000};
// The requeues for such pods, for all of them together: that many at once, and one more each
// kUrgentRequeueEvery.
inline constexpr int kUrgentRequeuesMax = 10;
inline constexpr std::chrono::milliseconds kUrgentRequeueEvery{6'000};
// Groups of pods that search at one time, with the names of examined nodes, 8 bytes for each name:
// 20 MB at most. Some names are sent twice for a pod, so that the limit suffices for 20,000 nodes.
inline constexpr std::size_t kSearchesMax = 64;
inline constexpr std::size_t kAskedNamesMax = 40'000;
// Groups whose search is remembered, 1.5 MB: kube-scheduler tries each pod again every five
// minutes, and a group that is forgotten searches again.
inline constexpr std::size_t kSearchedGroupsMax = kRejectionsRememberedMax;
// kube-scheduler calls preempt right after filter. Each of several schedulers has one such pod.
inline constexpr std::size_t kWaitsKeptMax = 64;

}  // namespace mgpu::extender
