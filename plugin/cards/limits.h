// Bounds of cards, their driver and MPS, with their reasons. Those that a user may change are flags
// that start from these values.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::plugin {

// 64 cards, each with some hundred processes.
inline constexpr std::size_t kCardsFileBytesMax = std::size_t{1} << 20;
// How often the cards file is looked at: it is changed by hand, or by a test that waits.
inline constexpr std::chrono::milliseconds kCardsFilePoll{500};
// File systems tell times to a tick of 4 to 10 ms: two changes within this may look like one.
inline constexpr std::chrono::milliseconds kFileTimeTick{20};
// Device nodes of a card, and nodes, mounts and variables for every container, in a cards file.
inline constexpr std::size_t kEditsPerCardMax = 64;
// Cards are probed so often; an event of the driver or a changed file is seen at once.
inline constexpr std::chrono::milliseconds kInventoryPeriod{5'000};
// How long the driver may take for one look at all cards; without a persistence daemon it starts
// each card anew, which takes seconds.
inline constexpr std::chrono::milliseconds kDriverTimeout{30'000};
// At the end: what a look that goes on is waited for.
inline constexpr std::chrono::milliseconds kDriverShutdownTimeout{2'000};
// One wait for XIDs; it cannot be ended before.
inline constexpr std::chrono::milliseconds kXidWait{500};
inline constexpr int kXidsAtOnceMax = 64;
// A sick card is offered again after so many good looks in a row.
inline constexpr int kGoodProbes = 3;
// NVML is started anew after so many looks in a row that did not see every card.
inline constexpr int kNvmlReopenReads = 12;
// Of the names in a driver's library folder.
inline constexpr std::size_t kDriverFilesMax = 256;
inline constexpr std::chrono::milliseconds kMpsCommandTimeout{5'000};
inline constexpr std::chrono::milliseconds kMpsRestartMin{1'000};
inline constexpr std::chrono::milliseconds kMpsRestartMax{60'000};
// How often a daemon is asked whether it answers; each time is a process of some 10 ms.
inline constexpr std::chrono::milliseconds kMpsProbePeriod{10'000};
// How often it is looked at whether its process lives, which costs nothing.
inline constexpr std::chrono::milliseconds kMpsTick{1'000};
// From its start to its first answer: a card without a persistence daemon is started with it.
inline constexpr std::chrono::milliseconds kMpsStartTimeout{30'000};
// From "quit" to being killed.
inline constexpr std::chrono::milliseconds kMpsQuitTimeout{5'000};
// A daemon that was silent so often in a row is ended, if no client of it is left.
inline constexpr int kMpsSilentProbes = 3;
// Servers of one daemon, and clients of one server (48, from CUDA 13.1 on 60).
inline constexpr std::size_t kMpsPidsMax = 256;
// The address of a socket has 108 bytes, of which its name in the pipe directory takes some.
inline constexpr std::size_t kMpsPipePathMax = 80;
// What an MPS daemon may print to one command.
inline constexpr std::size_t kMpsAnswerBytesMax = 64 * 1024;

}  // namespace mgpu::plugin
