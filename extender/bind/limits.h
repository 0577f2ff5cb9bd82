// Bounds of bind, with their reasons. Some are the defaults of flags.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::extender {

// kube-scheduler waits 5 s for a verb; bind answers before that.
inline constexpr std::chrono::milliseconds kBindTimeout{4'000};
// A POST is not sent with less time left: its answer would probably come too late, and the share
// would be held until the pod has been touched.
inline constexpr std::chrono::milliseconds kBindPostTimeMin{1'000};
// POSTs of one attempt. Each but the first follows a change of the pod by somebody else: once is
// kube-scheduler, more often is a tenant, who can wait for the next scheduling cycle.
inline constexpr int kBindPostsMax = 5;
// A bind waits some 50 ms for the Lease and the API server (README), so that these serve thousands
// a second.
inline constexpr std::size_t kBindsInFlight = 128;
// What a server that binds 1,000 a second serves within kBindTimeout. Others would be answered
// late.
inline constexpr std::size_t kBindsQueuedMax = 4096;
// With so many binds in flight filter is delayed, unless as many have ended within the time below.
// They are few enough for an API server that binds 20 pods a second to answer them in time. Those
// who bind hundreds use less CPU time for each the more there are at once (bench/README.md).
inline constexpr std::size_t kBindsBeforeDelay = 64;
inline constexpr std::chrono::milliseconds kBindsDelayed{250};
// In any case: if a fast API server becomes slow, they wait for their answers together.
inline constexpr std::size_t kBindsBeforeDelayMax = 256;
// After this time filter runs although no bind has ended, so that pods that fit nowhere, and those
// without cards, do not wait for an API server that binds nothing.
inline constexpr std::chrono::milliseconds kFilterDelayMax{1'000};
// A kube-scheduler calls filter for one pod at a time.
inline constexpr std::size_t kDelayedFiltersMax = 64;
// kube-scheduler nominates most members of a group for their nodes, and binds them right after
// that, perhaps before the watch shows it. A bind waits at most so long for it, which costs less
// than a read of the pod. kube-scheduler nominates 64 members one after the other before it binds
// them all at once.
inline constexpr std::chrono::milliseconds kNominationShownMax{100};
// While binds overlap, the Lease is read this often, and a bind waits half as long for the next
// read in the mean. kube-scheduler does not wait meanwhile: it schedules the next pods. A read for
// each bind costs a tenth to a sixth of the pods per second, and half of this interval some 3 %,
// because bindings that are sent together cost the API server less (bench/throughput.sh).
inline constexpr std::chrono::milliseconds kLeaseReadInterval{50};
// Binds overlap for so long after one of them came while another waited for the Lease: at 100 binds
// a second some come alone.
inline constexpr std::chrono::milliseconds kLeaseOverlapTime{250};
// Lease requests in flight. With two of them, one that is not answered does not hold up all binds.
inline constexpr std::size_t kLeaseReadsInFlight = 2;

// How often the claims that stay assumed are examined.
inline constexpr std::chrono::seconds kReconcileInterval{1};
// An accepted binding that the watch has not shown after this time is read from the API server.
inline constexpr std::chrono::seconds kAcceptedReconcileAfter{10};
// The time between two touches of a pod whose outcome is unknown.
inline constexpr std::chrono::milliseconds kTouchBackoffFirst{1'000};
inline constexpr std::chrono::milliseconds kTouchBackoffMax{30'000};
// Pods that a start asks about until one gives a clear answer: a policy, a webhook or the end of a
// namespace may refuse bindings of some pods before the API server looks at their preconditions.
inline constexpr int kStartChecksMax = 8;
// Pods that are read or touched at the same time: after an outage of the API server there may be
// thousands, and new binds need the API server too.
inline constexpr std::size_t kReconciliationsInFlight = 16;
// The same when the extender starts and touches every pending pod.
inline constexpr std::size_t kStartTouchesInFlight = 32;
// kube-apiserver takes a second for a pod with 50,000 labels, and longer for several at a time.
inline constexpr std::chrono::milliseconds kStartTouchTimeout{10'000};
// So many touches that fail in a row are not the fault of one pod.
inline constexpr int kStartTouchFailures = 4;
// A pod that can be read and was not changed by so many touches is set aside: a webhook that does
// not work is answered with 500, or not in time.
inline constexpr int kStartTouchesOfAPod = 3;
// After so many of a namespace, and none that was changed, the others of the namespace are set
// aside without an attempt: a webhook that hangs would cost a start 10 s for each of them.
inline constexpr std::size_t kStartFailedPods = 4;
// How long after the Lease was taken a binding of an earlier process may still happen to a pod that
// cannot be changed: kube-apiserver ends a request 60 s after it has read it (--request-timeout),
// and for its way there it has as long. See start_sequence.h for what this rests on.
inline constexpr std::chrono::milliseconds kLateBindingMax{120'000};
// A pod whose JSON text has this many bytes is touched before its binding is sent, see PodTouch. A
// shorter one has room for the condition: etcd accepts 1.5 MiB, and stores less than the text.
inline constexpr std::size_t kTouchedFirstBytes = std::size_t{256} << 10;

// Pods kept from filter for bind: more than are between the two at any time.
inline constexpr std::size_t kCachedPodsMax = 4096;
// Their bytes: an ordinary pod has less than 1 KiB here. A tenant's pod may have 1 MiB of
// selectors and labels; bind reads a pod above the second limit from the API server.
inline constexpr std::size_t kCachedPodsBytesMax = std::size_t{16} << 20;
inline constexpr std::size_t kCachedPodBytesMax = std::size_t{64} << 10;

}  // namespace mgpu::extender
