// Limits of YAML texts, with their reasons. The size of a file is limited where it is read.
#pragma once

#include <cstddef>

namespace mgpu::yaml {

// Kubernetes' objects have about 15 levels.
inline constexpr int kDepthMax = 64;
// What aliases may repeat, in values and bytes of texts.
inline constexpr std::size_t kRepeatedMax = std::size_t{1} << 20;

}  // namespace mgpu::yaml
