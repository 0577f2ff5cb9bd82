// Limits of the manifests that mgpu-sim reads.
#pragma once

#include <cstddef>

namespace mgpu::sim {

inline constexpr std::size_t kSimManifestBytesMax = std::size_t{64} << 20;
// Kubernetes objects have about 15 levels.
inline constexpr int kSimManifestDepthMax = 64;
inline constexpr std::size_t kSimObjectsMax = 100'000;

}  // namespace mgpu::sim
