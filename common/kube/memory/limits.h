// Bounds of the in-memory API server, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::kube {

// Of what the in-memory API server takes. Kubernetes' own objects nest some 20 deep.
inline constexpr std::size_t kJsonDepthMax = 100;
// kube-apiserver's own bound of a request (apiserver pkg/server/config.go, MaxRequestBodyBytes).
inline constexpr std::size_t kMemoryApiBodyBytesMax = std::size_t{3} << 20;
// etcd's bound of a value (--max-request-bytes).
inline constexpr std::size_t kMemoryApiObjectBytesMax = (std::size_t{3} << 20) / 2;
// kube-apiserver --min-request-timeout: a watch lasts one to two times as long.
inline constexpr std::chrono::seconds kMemoryApiWatchTimeoutMin{1800};

}  // namespace mgpu::kube
