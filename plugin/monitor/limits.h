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

// Two samples of the driver that are further apart say nothing about the time between them. One
// sample in a row may be missing.
inline constexpr std::chrono::milliseconds kMeasuredGapMax{15'000};
// A share that ended within a longer gap between two samples is not granted in the gap.
inline constexpr std::chrono::milliseconds kEndGapMax{15'000};
// While the plugin does not run, shares are held for at most this time. It limits the error where
// the clock was set meanwhile.
inline constexpr std::chrono::hours kUnwatchedMax{24};
// Containers on cards that have ended and are still listed: those of a day with a pod every minute
// and a half. Each takes 1.3 KB.
inline constexpr std::size_t kEndedSharesMax = 1'000;
// All shares of the account: a node can hold 64,000 with profiles, and has some hundred.
inline constexpr std::size_t kSharesMax = 10'000;
// How long the metrics of a container are served after its end, and of how many: several scrapes
// read the last value, and Prometheus keeps few series for each node.
inline constexpr std::chrono::minutes kEndedSeriesTime{10};
inline constexpr std::size_t kEndedSeriesMax = 200;
// How often the account is written to disk, and its size there; a share takes some 500 bytes.
inline constexpr std::chrono::minutes kUseSavePeriod{5};
inline constexpr std::size_t kUseFileBytesMax = std::size_t{8} << 20;

}  // namespace mgpu::plugin
