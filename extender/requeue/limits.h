// Bounds of delayed rejections and of requeueing pods, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::extender {

// How long a refusal waits for a release that kube-scheduler may have heard of first. Watches run
// apart by milliseconds; a busy API server makes that tens.
inline constexpr std::chrono::milliseconds kRejectionDelay{50};
inline constexpr std::chrono::milliseconds kRejectionDelayMax{150};
// Of kube-scheduler's time, at most; and how much of it may be used in one go.
inline constexpr int kRejectionDelayPercent = 10;
inline constexpr std::chrono::milliseconds kRejectionDelayAllowance{500};
inline constexpr std::size_t kDelayedRejectionsMax = 256;
inline constexpr std::size_t kRejectionsRememberedMax = 16'384;
// kube-scheduler asks again within milliseconds of a release that it heard of by itself.
inline constexpr std::chrono::milliseconds kRequeueDelay{1'000};
// While it still asks, whoever is owed a question may be next in its queue ...
inline constexpr std::chrono::milliseconds kRequeueQuiet{500};
// ... but not for ever: no backoff of kube-scheduler's is longer (podMaxBackoffSeconds).
inline constexpr std::chrono::milliseconds kRequeueDelayMax{10'000};
static_assert(kRequeueDelay < kRequeueDelayMax && kRequeueQuiet < kRequeueDelay);
// How often the ledger's releases are looked at while somebody waits.
inline constexpr std::chrono::milliseconds kRequeuePoll{500};
// Each wake makes kube-scheduler try all pods that no node fits, so that they must be few.
inline constexpr std::chrono::milliseconds kRequeueInterval{1'000};
inline constexpr std::chrono::milliseconds kRequeueTimeout{5'000};
// After a failure, doubled up to the second.
inline constexpr std::chrono::milliseconds kRequeueRetryFirst{1'000};
inline constexpr std::chrono::milliseconds kRequeueRetryMax{60'000};
// kube-scheduler asks about every pod once in five minutes, looking each half minute: who was not
// asked about for longer is no longer there.
inline constexpr std::chrono::milliseconds kRequeueRememberedFor{360'000};
// As many as the refusals remembered beside them.
inline constexpr std::size_t kRequeueListMax = kRejectionsRememberedMax;

}  // namespace mgpu::extender
