// Limits of queries to Prometheus, with their reasons.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mgpu::promql {

// The series of one answer. Containers of 5,000 nodes with 8 cards are some 50,000 series. The
// bytes of an answer are limited by kube::kApiResponseBytesMax, 20 MiB.
inline constexpr std::size_t kSeriesMax = 100'000;
// The samples in all series of one answer: 16 MiB of memory for each million.
inline constexpr std::size_t kSamplesMax = 2'000'000;
// Prometheus itself adds a handful.
inline constexpr std::size_t kWarningsMax = 16;
// Bytes of a message of Prometheus in an error sentence.
inline constexpr std::size_t kMessageShown = 512;
// Prometheus refuses a range query with more points of each series.
inline constexpr std::int64_t kPointsMax = 11'000;
// As for Mimir.
inline constexpr std::size_t kTenantBytesMax = 150;
// Browsers and proxies accept addresses of this length.
inline constexpr std::size_t kUrlBytesMax = 2'048;

}  // namespace mgpu::promql
