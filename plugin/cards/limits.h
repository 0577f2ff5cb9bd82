// Limits and intervals of cards, their driver and MPS, with their reasons. For those that have a
// flag these are the defaults.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "common/base/units.h"

namespace mgpu::plugin {

// Enough for 64 cards with some hundred processes each.
inline constexpr std::size_t kCardsFileBytesMax = std::size_t{1} << 20;
// The interval of checks whether the cards file has changed.
inline constexpr std::chrono::milliseconds kCardsFilePoll{500};
// File systems keep times with a resolution of 4 to 10 ms. Two changes within this time may have
// the same.
inline constexpr std::chrono::milliseconds kFileTimeTick{20};
// In a cards file: device nodes of a card; and nodes, mounts and variables for every container.
inline constexpr std::size_t kEditsPerCardMax = 64;
// The interval of reads of all cards. An event of the driver or a changed file is read at once.
inline constexpr std::chrono::milliseconds kInventoryPeriod{5'000};
// How long the driver may take for a read of all cards. Without a persistence daemon it
// initializes each card again, which takes seconds.
inline constexpr std::chrono::milliseconds kDriverTimeout{30'000};
// How long shutdown waits for a call into the driver.
inline constexpr std::chrono::milliseconds kDriverShutdownTimeout{2'000};
// The duration of one wait for XIDs, which cannot be interrupted.
inline constexpr std::chrono::milliseconds kXidWait{500};
inline constexpr int kXidsAtOnceMax = 64;
// An unhealthy card is offered again after this many good probes in a row.
inline constexpr int kGoodProbes = 3;
// NVML is reopened after this many reads in a row that did not see every card.
inline constexpr int kNvmlReopenReads = 12;
// The number doubles with each reopening up to this one, which is ten minutes of reads.
inline constexpr int kNvmlReopenReadsMax = 120;
// The links of the cards are read again after so many reads, which is ten minutes: it takes some
// hundred calls, and they change seldom.
inline constexpr int kLinkReads = 120;
// So many failures in a row to open an NVML of another version than the kernel module, after it was
// open, need a new process.
inline constexpr int kMismatchesMax = 3;
// A MIG device that was deleted is listed for so long, and longer while a pod may have it. kubelet
// has started a pod that was bound to it before, or has refused it.
inline constexpr std::chrono::minutes kGoneInstanceLife{10};
// File names taken from a driver's library folder.
inline constexpr std::size_t kDriverFilesMax = 256;
// Files of the driver that were there are missing after so many reads in a row.
inline constexpr int kMissingReads = 3;
// The load of the kernel module nvidia-uvm: how often it is tried, and how long a program may take.
inline constexpr std::chrono::milliseconds kLoadUvmPeriod{60'000};
inline constexpr std::chrono::milliseconds kLoadUvmTimeout{10'000};
inline constexpr std::size_t kLoadUvmBytesMax = 4096;
// The most of /proc/driver/nvidia/params, which has about 2 KiB.
inline constexpr std::size_t kDriverParametersBytesMax = std::size_t{64} << 10;
// The CDI spec of NVIDIA's toolkit has some 60 KB, and more with many MIG devices.
inline constexpr std::size_t kToolkitSpecBytesMax = std::size_t{1} << 20;
// Its mounts, device nodes, hooks or variables; and the arguments of a hook, which has two for each
// link that it makes.
inline constexpr std::size_t kToolkitListMax = 1024;
// Links on the way to one of them; the kernel follows 40.
inline constexpr int kDriverLinksMax = 40;
inline constexpr std::chrono::milliseconds kMpsCommandTimeout{5'000};
inline constexpr std::chrono::milliseconds kMpsRestartMin{1'000};
inline constexpr std::chrono::milliseconds kMpsRestartMax{60'000};
// The interval of probes of a daemon; each starts a process, which takes some 10 ms.
inline constexpr std::chrono::milliseconds kMpsProbePeriod{10'000};
// The interval of checks whether the daemon's process exists, which are cheap.
inline constexpr std::chrono::milliseconds kMpsTick{1'000};
// From the start of a daemon to its first response, which includes the start of a card without a
// persistence daemon.
inline constexpr std::chrono::milliseconds kMpsStartTimeout{30'000};
// From "quit" to SIGKILL.
inline constexpr std::chrono::milliseconds kMpsQuitTimeout{5'000};
// What a card without memory of its own is published with, if nobody has said how much of the
// processor's memory is shared out: the least that a card may have. No useful part fits.
inline constexpr MiB kNoMemoryOfItsOwn{1};
// A card whose daemon has not run for this long is not offered. A restart takes a few seconds.
inline constexpr std::chrono::milliseconds kMpsDownMax{30'000};
// After a program's fault a server runs again by itself once its clients have ended; if it does
// not, its daemon is restarted.
inline constexpr std::chrono::milliseconds kMpsFaultTimeout{30'000};
// A daemon without clients is killed after this many failed probes in a row.
inline constexpr int kMpsFailedProbes = 3;
// How often the end of one client is tried. The daemon's answer to a command is no proof of it.
inline constexpr int kMpsEndTries = 5;
// Clients of one server: 48, and 60 from CUDA 13.1 on, which does not have to be installed.
inline constexpr std::int64_t kMpsClientsMax = 48;
// Servers of one daemon, and what is read of the clients of one server.
inline constexpr std::size_t kMpsPidsMax = 256;
// The address of a socket has 108 bytes, of which its name in the pipe directory takes some.
inline constexpr std::size_t kMpsPipePathMax = 80;
// The log of one daemon, in memory (/run), and what is kept of one that has grown longer.
inline constexpr std::uintmax_t kMpsLogBytesMax = 1 << 20;
inline constexpr std::int64_t kMpsLogBytesKept = 64 << 10;
// The response of an MPS daemon to one session.
inline constexpr std::size_t kMpsResponseBytesMax = 64 * 1024;

// How long the driver may take to set the memory limits of one container on all of its cards, or
// the compute mode of a card.
inline constexpr std::chrono::milliseconds kNvmlCallTimeout{5'000};
// How often a release of the driver tries to restore compute modes. Further attempts could load the
// driver again while it is replaced.
inline constexpr int kReleaseRestoresMax = 3;
// A compute mode in a file.
inline constexpr std::size_t kComputeModeFileBytesMax = 16;

// The file of profiles: those of a cluster, and the labels that one of them selects nodes by.
inline constexpr std::size_t kProfilesMax = 64;
inline constexpr std::size_t kProfileLabelsMax = 16;
inline constexpr std::size_t kProfilesFileBytesMax = 256 * 1024;

}  // namespace mgpu::plugin
