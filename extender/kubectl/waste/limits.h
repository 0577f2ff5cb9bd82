// Limits and rules of `kubectl mgpu waste`, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace mgpu::kubectl {

// --- what is suggested ---------------------------------------------------------------------------

// The least measured hours and samples of a container. Less may be the start of a program, and
// not its work.
inline constexpr double kSuggestHoursMin = 1;
inline constexpr std::int64_t kSuggestSamplesMin = 60;
// What a suggestion is rounded up to: requests are round numbers.
inline constexpr std::int64_t kSuggestCoreStep = 5;      // percent of a card
inline constexpr std::int64_t kSuggestMemoryStep = 256;  // MiB
// By default nodes that enforce shares take no smaller one, because the context of a CUDA program
// counts in it. Where a smaller one was granted they take that.
inline constexpr std::int64_t kSuggestMemoryMin = 1024;  // MiB

// --- queries to Prometheus ----------------------------------------------------------------------

// The step of a query about at most a day, and of one about more. Most Prometheus scrape every 15
// to 60 seconds, and a program's use changes more slowly than the hours that are summed.
inline constexpr std::chrono::seconds kShortStep{15};
inline constexpr std::chrono::seconds kLongStep{60};
inline constexpr std::chrono::hours kShortSince{24};
// Steps of one query. By default Prometheus holds 50 million samples for a query: 13,000 shares,
// since it was measured to hold up to 2.5 samples of each share and step.
inline constexpr std::int64_t kStepsOfQuery = 1'440;
// Steps of a percentile, which cannot be put together from parts, and for which it holds 4 samples:
// 2,100 shares. Where Prometheus refuses that, the query is for fewer: 8,600 shares.
inline constexpr std::int64_t kStepsOfPercentile = 5'760;
inline constexpr std::int64_t kStepsOfPercentileLeast = 1'440;
inline constexpr std::chrono::minutes kSinceMin{10};
inline constexpr std::chrono::hours kSinceMax{90 * 24};
// The time for one query; Prometheus itself ends it after two minutes by default.
inline constexpr std::chrono::seconds kQueryTimeout{60};

}  // namespace mgpu::kubectl
