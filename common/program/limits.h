// Limits of programs, of the service listener and of bearer tokens.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu {

// A shutdown takes 10 s for calls in progress, and some seconds for the rest. kubelet kills a
// container after 30 s, but only if it was the one that ended it.
inline constexpr std::chrono::seconds kShutdownMax{25};

// A token of a service account has about 1 KiB.
inline constexpr std::size_t kBearerTokenBytesMax = 8 * 1024;
// Kubernetes' own components keep the results of TokenReviews and SubjectAccessReviews for 10 s
// (apiserver pkg/server/options/authentication.go). A token that was revoked is accepted for this
// long.
inline constexpr std::chrono::seconds kAccessKept{10};
// Results that are kept, each for one token and path.
inline constexpr std::size_t kAccessResultsMax = 1024;
// Checks that run at the same time. Those of tokens that were not allowed before may use half of
// them, and start so often in a second: invalid tokens then neither load the API server nor exclude
// Prometheus.
inline constexpr std::size_t kAccessChecksMax = 16;
inline constexpr std::size_t kAccessChecksPerSecondMax = 20;
inline constexpr std::chrono::seconds kAccessCheckTimeout{5};  // of each of the two reviews

// Enough for a Pod manifest, which is the largest body.
inline constexpr std::size_t kServiceBodyBytesMax = 256 * 1024;
inline constexpr std::size_t kServiceConnectionsMax = 64;
inline constexpr std::size_t kServiceConnectionsPerAddressMax = 16;

// The soft limit of open files that is set, if the hard limit allows it. It is not higher because
// some child processes close every file descriptor up to the limit.
inline constexpr std::size_t kOpenFilesWanted = 16 * 1024;
// Open files that are not connections of clients: 128 connections to the API server, watches, log,
// files that are being read.
inline constexpr std::size_t kOpenFilesKept = 256;
inline constexpr std::size_t kConnectionsMin = 16;

}  // namespace mgpu
