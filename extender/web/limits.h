// Bounds of the web page's server side, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace mgpu::extender {

// Pages that are open at one time. Each costs the memory of one part, and a walk over its changes.
inline constexpr std::size_t kWebClientsMax = 32;
// A part ends after the node with which it has this size. A browser reads one in a millisecond.
inline constexpr std::size_t kWebPartBytes = std::size_t{128} << 10;
// How often the ledger is compared with what clients have. People do not follow faster changes.
inline constexpr std::chrono::milliseconds kWebUpdateInterval{500};
// A page shows that the connection is lost when it has received nothing for three of these.
inline constexpr std::chrono::milliseconds kWebHeartbeatInterval{5'000};
// Removed nodes that are kept, so that pages remove them. A page that has missed more starts over.
inline constexpr std::size_t kWebRemovedNodesMax = 10'000;

// Waiting pods that are sent to a page, of some 1 KiB each. More are only counted.
inline constexpr std::size_t kWaitingPodsMax = 1'000;
// After this size no further waiting pod is added.
inline constexpr std::size_t kWaitingBytesMax = std::size_t{2} << 20;
// The part of a message of kube-scheduler that is shown; it has one reason after the other.
inline constexpr std::size_t kWaitingMessageBytesMax = 1'024;
// While pods come and go, the list of waiting pods is sent this often.
inline constexpr std::chrono::milliseconds kWaitingInterval{1'000};
// The watch of waiting pods goes on for this time after the last page is closed.
inline constexpr std::chrono::seconds kWaitingGrace{60};

// The history has at most this many points. When it is full, every second one is removed, and
// points are taken half as often: 4 hours in steps of 10 s, then 8 hours in steps of 20 s.
inline constexpr std::size_t kHistoryPointsMax = 1'440;
inline constexpr std::chrono::milliseconds kHistoryInterval{10'000};
inline constexpr std::chrono::milliseconds kHistoryIntervalMax{86'400'000};

// The history of Prometheus: kHistoryPointsMax points.
inline constexpr std::chrono::seconds kPrometheusHistory{86'400};
inline constexpr std::chrono::seconds kPrometheusStep{60};
// While a page is open, the history is queried this often.
inline constexpr std::chrono::milliseconds kPrometheusInterval{60'000};
// A query ends after this time.
inline constexpr std::chrono::milliseconds kPrometheusTimeout{10'000};
// The size of an answer. Ten series with all points have 430 KiB.
inline constexpr std::size_t kPrometheusBytesMax = std::size_t{4} << 20;
// Idle pods that the page shows.
inline constexpr std::size_t kIdlePodsMax = 200;
// The size of a label that the page shows; those of Kubernetes have at most 253 bytes.
inline constexpr std::size_t kPrometheusLabelBytesMax = 256;

// What a pod uses is queried again after this time; a page requests it every 10 s.
inline constexpr std::chrono::milliseconds kPodUseLife{5'000};
inline constexpr std::size_t kPodUsesKept = 64;
// Queries for what pods use that Prometheus has not answered. Requests about the same pod share one
// query, as many requests as pages can be open.
inline constexpr std::size_t kPodUseQueriesMax = 4;
inline constexpr std::size_t kPodUseWaitingMax = kWebClientsMax;
// Shares of a pod that are shown. A pod has a few containers with a few cards.
inline constexpr std::size_t kPodUseSharesMax = 256;

}  // namespace mgpu::extender
