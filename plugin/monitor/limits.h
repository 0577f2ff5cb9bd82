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

// What a container used between two reads of the driver that are further apart is not counted. One
// read may be missing.
inline constexpr std::chrono::milliseconds kMeasuredGapMax{15'000};
// Drifts that are remembered, and of these how many are reported in one step. Events have limits of
// their own.
inline constexpr std::size_t kDriftsMax = 1'000;
inline constexpr std::size_t kDriftsReportedPerStep = 8;
inline constexpr std::size_t kDriftMessageMax = 1'024;
// Names in GET /drift are cut after this length, that of a name in Kubernetes.
inline constexpr std::size_t kDriftNameMax = 253;
// The time between two samples that both have a drift before it is reported. Samples are taken
// more often than each kMonitorPeriod when cards change.
inline constexpr std::chrono::milliseconds kDriftConfirm{4'000};

}  // namespace mgpu::plugin
