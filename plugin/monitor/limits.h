// Limits of monitoring.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::plugin {

// Interval between samples. /metrics returns the last sample.
inline constexpr std::chrono::milliseconds kMonitorPeriod{5'000};
// Number of processes that are read for one card.
inline constexpr std::size_t kProcessesPerCardMax = 4'096;
inline constexpr std::size_t kProcFileBytesMax = 64 * 1024;

}  // namespace mgpu::plugin
