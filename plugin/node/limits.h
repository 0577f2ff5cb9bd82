// Limits of writes to the Node object, and of the checks of other access to its cards.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::plugin {

// The time between two changes of the taint mgpu-needs-cpu.
inline constexpr std::chrono::milliseconds kTaintInterval{30'000};

// The time between two checks for other software that allocates the cards, and after an incomplete
// one.
inline constexpr std::chrono::milliseconds kAccessPeriod{3'600'000};
inline constexpr std::chrono::milliseconds kAccessRetry{60'000};
// The time for each query of a check. The agent samples nothing meanwhile, and ends later.
inline constexpr std::chrono::milliseconds kAccessTimeout{2'000};
// The settings of NVIDIA's container toolkit have about 2 KiB.
inline constexpr std::size_t kToolkitFileBytesMax = 64 * 1'024;

}  // namespace mgpu::plugin
