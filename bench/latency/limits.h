// Limits and parameters of the latency benchmark, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::bench::limits {

// A typical API server writes a binding in this time.
inline constexpr std::chrono::milliseconds kApiServerDelay{1};
// Time between the response to a binding and its watch event.
inline constexpr std::chrono::milliseconds kWatchDelay{1};
// Number of different pod requests. A cluster has a few dozen kinds of pods at a time.
inline constexpr std::size_t kPodKinds = 8;
// Requests to one server before the next server's turn. Turns are short, so that other load on the
// machine affects all servers alike.
inline constexpr std::size_t kTurn = 10;
// First requests, which are not measured: caches, branch predictors and buffers warm up.
inline constexpr std::size_t kWarmUp = 3 * kPodKinds;
// Slow measurements have fewer requests than --requests, but at least kRequestsLeast: one tenth for
// the naive extender, one fiftieth for requests with complete Node objects.
inline constexpr std::size_t kRequestsLeast = 10;
inline constexpr std::size_t kNaiveOneIn = 10;
inline constexpr std::size_t kFullFormOneIn = 50;
// Pods that the background load deletes and creates again. Their events are built in advance.
inline constexpr std::size_t kLoadPods = 512;
// Number of bound pods that remain. Older ones are deleted, so that the cluster does not fill up.
inline constexpr std::size_t kBoundPodsKept = 64;
// Rate of binds, and number of threads that bind; each waits for the response to its bind.
// kube-scheduler does not wait, so there are enough for the rate while each waits for the Lease.
inline constexpr int kBindsPerS = 1'000;
inline constexpr int kBindThreads = 64;
// Complete Node objects of 5,000 nodes have 20 MB (--max-body-bytes).
inline constexpr std::size_t kBodyBytesMax = std::size_t{32} << 20;
inline constexpr std::chrono::seconds kReadyWithin{120};
inline constexpr std::chrono::milliseconds kReadyPoll{2};

}  // namespace mgpu::bench::limits
