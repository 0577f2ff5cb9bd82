// Limits of the communication with kubelet and the container runtime.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::plugin {

// A PodResources response for 8 cards of 1-MiB devices has about 30 MiB.
inline constexpr int kPodResourcesBytesMax = 256 << 20;
inline constexpr std::chrono::milliseconds kPodResourcesTimeout{5'000};
// At most 50 calls a second for a resource: half of what kubelet allows all programs of the node
// together. Containers are only listed for mgpu-core.
inline constexpr std::chrono::milliseconds kPodResourcesPeriod{20};
// Delay before PodResources is called again after kubelet's rate limit; jitter is added.
inline constexpr std::chrono::milliseconds kPodResourcesRetry{20};
inline constexpr std::chrono::milliseconds kRegisterTimeout{15'000};
// A process that ends waits so long until kubelet keeps its successor.
inline constexpr std::chrono::milliseconds kUnregisterTimeout{2'000};
inline constexpr std::chrono::milliseconds kRegisterRetryMin{200};
inline constexpr std::chrono::milliseconds kRegisterRetryMax{5'000};
// kubelet_internal_checkpoint with 1-MiB devices of 200 GiB has about 4 MB.
inline constexpr std::size_t kCheckpointBytesMax = std::size_t{64} << 20;
// PreStartContainer calls at a time. kubelet makes one for each of its pod workers.
inline constexpr int kPreStartCallsMax = 64;
// ListAndWatch streams at a time. kubelet opens one.
inline constexpr int kListStreamsMax = 4;
// All other calls at a time: the streams, and Allocate, which kubelet calls one at a time.
inline constexpr int kOtherCallsMax = 12;
static_assert(kOtherCallsMax > kListStreamsMax);
// Interval between checks of the sockets. A check takes about 10 us.
inline constexpr std::chrono::milliseconds kPluginPoll{250};
// Interval between checks whether kubelet still reads a stream. A pod that is admitted between the
// end of the stream and the next registration fails permanently. 50 checks a second took 0.5 % of a
// core.
inline constexpr std::chrono::milliseconds kListStreamPoll{100};
// A server that stops ends its stream so long after the last Allocate, whose answer gRPC sends
// meanwhile. It serves for as long after that, until kubelet has seen the end of the stream.
inline constexpr std::chrono::milliseconds kAllocateQuiet{50};
// Limit of each of the three steps of a server that stops: the Allocate calls before the end of its
// stream, those after it, and the other calls, which gRPC cancels then.
inline constexpr std::chrono::milliseconds kPluginShutdownTimeout{500};
// Length to which a message of another program is truncated.
inline constexpr std::size_t kGrpcMessageShown = 1'024;
// The Status response of a container runtime has its whole configuration, about 20 KiB.
inline constexpr int kRuntimeBytesMax = 4 << 20;
// Length to which the runtime's name and version are truncated.
inline constexpr std::size_t kRuntimeNameBytesShown = 64;

}  // namespace mgpu::plugin
