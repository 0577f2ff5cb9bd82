// The files of deploy/examples, compiled in.
#pragma once

#include <string_view>

namespace mgpu::sim {

extern const std::string_view kExampleNodes;
extern const std::string_view kExamplePods;

}  // namespace mgpu::sim
