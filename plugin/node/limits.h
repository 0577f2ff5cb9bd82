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

}  // namespace mgpu::plugin
