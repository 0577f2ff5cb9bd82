// Bounds of waking kube-scheduler, with their reasons.
#pragma once

#include <cstddef>

#include "common/executor.h"
#include "common/limits.h"

namespace mgpu::limits {

// kube-scheduler asks again within milliseconds of a release that it heard of by itself.
inline constexpr milliseconds kWakeDelay{1'000};
// While it still asks, whoever is owed a question may be next in its queue ...
inline constexpr milliseconds kWakeQuiet{500};
// ... but not for ever: no backoff of kube-scheduler's is longer (podMaxBackoffSeconds).
inline constexpr milliseconds kWakeDelayMax{10'000};
static_assert(kWakeDelay < kWakeDelayMax && kWakeQuiet < kWakeDelay);
// How often the ledger's releases are looked at while somebody waits.
inline constexpr milliseconds kWakeLook{500};
// Each wake makes kube-scheduler try all pods that no node fits, so that they must be few.
inline constexpr milliseconds kWakeInterval{1'000};
inline constexpr milliseconds kWakeTimeout{5'000};
// After a failure, doubled up to the second.
inline constexpr milliseconds kWakeRetryFirst{1'000};
inline constexpr milliseconds kWakeRetryMax{60'000};
// kube-scheduler asks about every pod once in five minutes, looking each half minute: who was not
// asked about for longer is no longer there.
inline constexpr milliseconds kWakeRememberedFor{360'000};
// As many as the refusals remembered beside them.
inline constexpr std::size_t kWakeListMax = kRefusalsRememberedMax;

}  // namespace mgpu::limits
