// Limits of the in-memory API server, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::kube {

// Nesting of the JSON in a request. Kubernetes' own objects nest about 20 levels deep.
inline constexpr std::size_t kJsonDepthMax = 100;
// kube-apiserver's own limit of a request (apiserver pkg/server/config.go, MaxRequestBodyBytes).
inline constexpr std::size_t kMemoryApiBodyBytesMax = std::size_t{3} << 20;
// etcd's limit of a value (--max-request-bytes).
inline constexpr std::size_t kMemoryApiObjectBytesMax = (std::size_t{3} << 20) / 2;
// kube-apiserver --min-request-timeout: a watch lasts one to two times as long.
inline constexpr std::chrono::seconds kMemoryApiWatchTimeoutMin{1800};

}  // namespace mgpu::kube
