// Every bound of the device plugin, with its reason. Bounds a user may change are flags that start
// from these values.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace mgpu::limits {

// --- kubelet -------------------------------------------------------------------------------------

// kubelet dials plugins with gRPC's default, 4 MiB (kubernetes
// pkg/kubelet/cm/devicemanager/plugin/v1beta1/client.go, dial), and drops a plugin whose list is
// larger without telling it.
inline constexpr std::size_t kDeviceListBytesMax = 4'194'304;
// kubelet limits PreStartContainer to 30 s (devicemanager/endpoint.go); an answer must be there
// before.
inline constexpr std::chrono::milliseconds kPreStartBudget{20'000};
// How long a PreStart waits for news (a watch that lags, a share of an ended pod) before it
// refuses; kubelet asks again after 10 to 15 s.
inline constexpr std::chrono::milliseconds kPreStartPatience{5'000};
inline constexpr std::chrono::milliseconds kPreStartLookAgain{100};
// PodResources: 8 cards of 1-MiB devices answer with some 30 MiB; no answer of an honest kubelet is
// larger than this.
inline constexpr int kPodResourcesBytesMax = 256 << 20;
inline constexpr std::chrono::milliseconds kPodResourcesTimeout{5'000};
inline constexpr std::chrono::milliseconds kRegisterTimeout{15'000};
inline constexpr std::chrono::milliseconds kRegisterAgainMin{200};
inline constexpr std::chrono::milliseconds kRegisterAgainMax{5'000};
// kubelet_internal_checkpoint: 1-MiB devices of 200 GiB make some 4 MB.
inline constexpr std::size_t kCheckpointBytesMax = std::size_t{64} << 20;
// Of one Allocate or PreStart; 64 cards of 100.
inline constexpr std::size_t kDevicesPerRequestMax = 6'400;
// "ID <= 63 chars" (kubelet api.proto v1beta1, Device.ID).
inline constexpr std::size_t kDeviceIdBytesMax = 63;
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
inline constexpr std::chrono::milliseconds kListStreamLook{100};
// What calls in work are given when the server ends, before gRPC cancels them.
inline constexpr std::chrono::milliseconds kPluginDrain{500};
// Of another program's sentence.
inline constexpr std::size_t kGrpcMessageShown = 1'024;
// Between two calls of PodResources when kubelet rejects the first for its rate; with jitter.
inline constexpr std::chrono::milliseconds kPodResourcesAgain{20};
// Status of a container runtime: its whole configuration, some 20 KiB.
inline constexpr int kRuntimeBytesMax = 4 << 20;
// Of the name and the version that it gives itself.
inline constexpr std::size_t kRuntimeNameShown = 64;

// --- state on disk -------------------------------------------------------------------------------

inline constexpr std::size_t kRecordBytesMax = 64 * 1024;
inline constexpr std::size_t kRecordsMax = 10'000;

// --- cards ---------------------------------------------------------------------------------------

// 64 cards, each with some hundred processes.
inline constexpr std::size_t kCardsFileBytesMax = std::size_t{1} << 20;
// How often the cards file is looked at: it is changed by hand, or by a test that waits.
inline constexpr std::chrono::milliseconds kCardsFileLook{500};
// File systems tell times to a tick of 4 to 10 ms: two changes within this may look like one.
inline constexpr std::chrono::milliseconds kFileTimeTick{20};
// Of a device, a mount or a value of the environment (linux/limits.h, PATH_MAX).
inline constexpr std::size_t kPathBytesMax = 4'096;
// Device nodes of a card, and nodes, mounts and variables for every container, in a cards file.
inline constexpr std::size_t kEditsPerCardMax = 64;

// Cards are probed so often; an event of the driver or a changed file is seen at once.
inline constexpr std::chrono::milliseconds kInventoryPeriod{5'000};
// Records of pods that are gone are looked for so often.
inline constexpr std::chrono::milliseconds kGarbagePeriod{10'000};
// Use is sampled so often; /metrics answers with the last sample.
inline constexpr std::chrono::milliseconds kMonitorPeriod{5'000};

// How long the driver may take for one look at all cards; without a persistence daemon it starts
// each card anew, which takes seconds.
inline constexpr std::chrono::milliseconds kDriverPatience{30'000};
// At the end: what a look that goes on is waited for.
inline constexpr std::chrono::milliseconds kDriverGoodbye{2'000};
// One wait for XIDs; it cannot be ended before.
inline constexpr std::chrono::milliseconds kXidWait{500};
inline constexpr int kXidsAtOnceMax = 64;
// A sick card is offered again after so many good looks in a row.
inline constexpr int kGoodProbes = 3;
// NVML is started anew after so many looks in a row that did not see every card.
inline constexpr int kNvmlReopenReads = 12;
// Of the names in a driver's library folder.
inline constexpr std::size_t kDriverFilesMax = 256;

// --- isolation and monitoring --------------------------------------------------------------------

// Processes of one card that are looked at.
inline constexpr std::size_t kProcessesPerCardMax = 4'096;
inline constexpr std::size_t kProcFileBytesMax = 64 * 1024;
inline constexpr std::chrono::milliseconds kMpsCommandTimeout{5'000};
inline constexpr std::chrono::milliseconds kMpsRestartMin{1'000};
inline constexpr std::chrono::milliseconds kMpsRestartMax{60'000};
// How often a daemon is asked whether it answers; each time is a process of some 10 ms.
inline constexpr std::chrono::milliseconds kMpsLook{10'000};
// How often it is looked at whether its process lives, which costs nothing.
inline constexpr std::chrono::milliseconds kMpsTick{1'000};
// From its start to its first answer: a card without a persistence daemon is started with it.
inline constexpr std::chrono::milliseconds kMpsStartPatience{30'000};
// From "quit" to being killed.
inline constexpr std::chrono::milliseconds kMpsQuitPatience{5'000};
// A daemon that was silent so often in a row is ended, if no client of it is left.
inline constexpr int kMpsSilentLooks = 3;
// Servers of one daemon, and clients of one server (48, from CUDA 13.1 on 60).
inline constexpr std::size_t kMpsPidsMax = 256;
// The address of a socket has 108 bytes, of which its name in the pipe directory takes some.
inline constexpr std::size_t kMpsPipePathMax = 80;
// What an MPS daemon may print to one command.
inline constexpr std::size_t kMpsAnswerBytesMax = 64 * 1024;

// --- events --------------------------------------------------------------------------------------

// Different events remembered, so that equal ones are counted rather than written again.
inline constexpr std::size_t kEventsRememberedMax = 1'024;
// kubelet cuts its own at the same length (core/v1 Event.message, apiserver validation).
inline constexpr std::size_t kEventMessageMax = 1'024;
inline constexpr std::size_t kEventsInFlightMax = 16;

}  // namespace mgpu::limits
