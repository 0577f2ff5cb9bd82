// The wall clock, for what stands on Kubernetes objects.
#pragma once

#include <string>

namespace mgpu::node {

// Now, in UTC and whole seconds: "2026-01-02T03:04:05Z" (metav1.Time). Any thread.
std::string utc_now();

}  // namespace mgpu::node
