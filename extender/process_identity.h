// A name for this process that no other process has, earlier ones included.
#pragma once

#include <string>

namespace mgpu::extender {

// The host's name, which in a pod is the name of the pod, and 64 random bits:
// "mgpu-extender-0_5f1c0e6d2b7a9438".
std::string process_identity();

}  // namespace mgpu::extender
