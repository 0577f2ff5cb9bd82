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

// Two samples of the driver that are further apart give no measurement of the time between them.
// One sample in a row may be missing.
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
// Interval between two queries of kubelet's PodResources. With 1-MiB devices its answer has 30 MiB.
inline constexpr std::chrono::milliseconds kDriftKubeletPeriod{30'000};
inline constexpr std::chrono::milliseconds kDriftKubeletTimeout{2'000};
// A share whose card was not measured for longer is watched anew.
inline constexpr std::chrono::milliseconds kUnmeasuredMax{60'000};

}  // namespace mgpu::plugin
