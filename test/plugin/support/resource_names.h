// The resources of a pod under the default domain.
#pragma once

#include <string>

namespace mgpu::test {

inline const std::string kCore = "vke.volcengine.com/mgpu-core";
inline const std::string kMemory = "vke.volcengine.com/mgpu-memory";

}  // namespace mgpu::test
