// Limits of YAML texts, with their reasons. The size of a file is limited where it is read.
#pragma once

#include <cstddef>

namespace mgpu::yaml {

// Kubernetes' objects have about 15 levels.
inline constexpr int kDepthMax = 64;
// What aliases may repeat, in values and bytes of texts.
inline constexpr std::size_t kRepeatedMax = std::size_t{1} << 20;
// Lines of both sides that are compared to find the next equal ones. A changed pod differs in some
// lines; each difference takes at most the square of this.
inline constexpr std::size_t kLinesComparedMax = 200;

}  // namespace mgpu::yaml
