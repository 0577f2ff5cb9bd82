// Bounds of talking to kubelet and the container runtime, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::plugin {

// PodResources: 8 cards of 1-MiB devices answer with some 30 MiB; no answer of an honest kubelet is
// larger than this.
inline constexpr int kPodResourcesBytesMax = 256 << 20;
inline constexpr std::chrono::milliseconds kPodResourcesTimeout{5'000};
inline constexpr std::chrono::milliseconds kRegisterTimeout{15'000};
inline constexpr std::chrono::milliseconds kRegisterRetryMin{200};
inline constexpr std::chrono::milliseconds kRegisterRetryMax{5'000};
// kubelet_internal_checkpoint: 1-MiB devices of 200 GiB make some 4 MB.
inline constexpr std::size_t kCheckpointBytesMax = std::size_t{64} << 20;
// PreStarts that wait at once; kubelet has one for each pod worker.
inline constexpr int kPluginThreadsMax = 64;
// Streams of the list at once; kubelet has one.
inline constexpr int kListStreamsMax = 4;
// Threads for everything else: the streams, and Allocate, which kubelet calls one at a time.
inline constexpr int kPluginThreadsBeside = 12;
static_assert(kPluginThreadsBeside > kListStreamsMax);
// How often sockets are looked at: some 10 us of work each time.
inline constexpr std::chrono::milliseconds kPluginPoll{250};
// How often it is looked at whether kubelet still reads a stream: a pod that comes after it has
// stopped, and before we are registered anew, fails for good. 50 looks a second took 0.5 % of a
// core.
inline constexpr std::chrono::milliseconds kListStreamPoll{100};
// What calls in work are given when the server ends, before gRPC cancels them.
inline constexpr std::chrono::milliseconds kPluginDrain{500};
// Of another program's sentence.
inline constexpr std::size_t kGrpcMessageShown = 1'024;
// Between two calls of PodResources when kubelet rejects the first for its rate; with jitter.
inline constexpr std::chrono::milliseconds kPodResourcesRetry{20};
// Status of a container runtime: its whole configuration, some 20 KiB.
inline constexpr int kRuntimeBytesMax = 4 << 20;
// Of the name and the version that it gives itself.
inline constexpr std::size_t kRuntimeNameBytesShown = 64;

}  // namespace mgpu::plugin
