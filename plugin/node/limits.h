// Limits of Events and of writes to the Node object.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::plugin {

// Events whose count is kept, so that an equal one updates the same object.
inline constexpr std::size_t kEventsRememberedMax = 1'024;
// kubelet truncates its messages to the same length (core/v1 Event.message, apiserver validation).
inline constexpr std::size_t kEventMessageMax = 1'024;
inline constexpr std::size_t kEventsInFlightMax = 16;

// The time between two changes of the taint mgpu-needs-cpu.
inline constexpr std::chrono::milliseconds kTaintInterval{30'000};

// Between two checks of who else gives out the cards, and after one that was incomplete.
inline constexpr std::chrono::milliseconds kAccessPeriod{3'600'000};
inline constexpr std::chrono::milliseconds kAccessRetry{60'000};
// Of each question of a check. The agent samples nothing meanwhile, and ends later.
inline constexpr std::chrono::milliseconds kAccessTimeout{2'000};
// The settings of NVIDIA's container toolkit have about 2 KiB.
inline constexpr std::size_t kToolkitFileBytesMax = 64 * 1'024;

}  // namespace mgpu::plugin
