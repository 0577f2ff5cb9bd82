// Limits of the manifests that mgpu-sim reads.
#pragma once

#include <cstddef>

namespace mgpu::sim {

inline constexpr std::size_t kSimObjectsMax = 100'000;

}  // namespace mgpu::sim
