// Bounds of the election, with their reasons. Some are the defaults of flags.
#pragma once

#include <chrono>

namespace mgpu::extender {

// The defaults of kube-scheduler and of other controllers (client-go, leaderelection).
inline constexpr std::chrono::milliseconds kLeaseDuration{15'000};
inline constexpr std::chrono::milliseconds kRenewDeadline{10'000};
inline constexpr std::chrono::milliseconds kLeaseRetry{2'000};
// A holder may state its own duration in the Lease. A process waits no longer than this for it.
inline constexpr std::chrono::milliseconds kLeaseDurationMax{60'000};

// A process that kube-scheduler calls takes the Lease from a holder that has had it for this long.
// Two active schedulers that call different processes would otherwise take it from each other with
// each request.
inline constexpr std::chrono::milliseconds kTakenFromHolderAfter{10'000};
// If replicas lead when they are asked, one that is not asked takes a free Lease this much later.
// Otherwise it would often take the Lease of a machine that was lost just before the next
// kube-scheduler leads there, and the replica beside that one would have to wait for
// kTakenFromHolderAfter.
inline constexpr std::chrono::milliseconds kTakenUnaskedAfter{10'000};
// A request of kube-scheduler counts for this long. It repeats a request that failed after at most
// 10 s.
inline constexpr std::chrono::milliseconds kAskedFor{15'000};

// A clean shutdown waits so long for the answer that the Lease has been given up.
inline constexpr std::chrono::milliseconds kReleaseTimeout{2'000};

// How often the leader compares the EndpointSlice with its own address. Somebody may have deleted
// or changed it.
inline constexpr std::chrono::milliseconds kEndpointsInterval{10'000};
inline constexpr std::chrono::milliseconds kEndpointsRetryFirst{500};
inline constexpr std::chrono::milliseconds kEndpointsRetryMax{30'000};

}  // namespace mgpu::extender
