// Bounds of sampling the use of cards, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::plugin {

// Use is sampled so often; /metrics answers with the last sample.
inline constexpr std::chrono::milliseconds kMonitorPeriod{5'000};
// Processes of one card that are looked at.
inline constexpr std::size_t kProcessesPerCardMax = 4'096;
inline constexpr std::size_t kProcFileBytesMax = 64 * 1024;

}  // namespace mgpu::plugin
