// Bounds of Events, with their reasons.
#pragma once

#include <cstddef>

namespace mgpu::plugin {

// Different events remembered, so that equal ones are counted rather than written again.
inline constexpr std::size_t kEventsRememberedMax = 1'024;
// kubelet cuts its own at the same length (core/v1 Event.message, apiserver validation).
inline constexpr std::size_t kEventMessageMax = 1'024;
inline constexpr std::size_t kEventsInFlightMax = 16;

}  // namespace mgpu::plugin
