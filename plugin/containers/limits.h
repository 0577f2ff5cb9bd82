// Limits of starting containers and of removing their records.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::plugin {

// A PreStart is retried for this time while its refusal is temporary (the watch lags, a share is
// not released yet). kubelet, whose own limit is 30 s (devicemanager/endpoint.go), calls again 10
// to 15 s after an error.
inline constexpr std::chrono::milliseconds kPreStartTimeout{5'000};
inline constexpr std::chrono::milliseconds kPreStartPoll{100};
// Time limit for reading one pod from the API server.
inline constexpr std::chrono::milliseconds kPodFetchTimeout{2'000};
// Interval between removals of the records of ended pods.
inline constexpr std::chrono::milliseconds kRecordCollectPeriod{10'000};
// How long mgpu-set-limits may take to send its request, which it sends at once; and how many of
// these programs are served at a time. kubelet starts fewer containers at a time.
inline constexpr std::chrono::milliseconds kLimitRequestTimeout{2'000};
inline constexpr std::size_t kLimitClientsMax = 64;
// The self test of the library on a card: programs start three times, each of which initializes a
// card without a persistence daemon for up to 4 s. A test that did not pass is repeated.
inline constexpr std::chrono::milliseconds kSelfTestTimeout{20'000};
inline constexpr std::chrono::milliseconds kSelfTestPeriod{600'000};
// It prints ten lines, besides what the libraries print.
inline constexpr std::size_t kSelfTestBytesMax = std::size_t{64} << 10;
// The file with what has passed: a line of some 300 bytes for each card.
inline constexpr std::size_t kSelfTestsFileBytesMax = std::size_t{1} << 20;

}  // namespace mgpu::plugin
