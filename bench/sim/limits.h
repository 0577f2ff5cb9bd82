// Bounds of what mgpu-sim reads, with their reasons.
#pragma once

#include <cstddef>

namespace mgpu::sim {

inline constexpr std::size_t kSimManifestBytesMax = std::size_t{64} << 20;
// Kubernetes objects nest to some 15 levels.
inline constexpr int kSimManifestDepthMax = 64;
inline constexpr std::size_t kSimManifestValuesMax = 20'000'000;
inline constexpr std::size_t kSimObjectsMax = 100'000;

}  // namespace mgpu::sim
