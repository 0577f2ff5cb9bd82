// The wall clock as text: RFC 3339 in UTC, as Kubernetes objects and log lines have it. Any thread.
#pragma once

#include <chrono>
#include <string>

namespace mgpu {

// "2026-01-02T03:04:05Z" (metav1.Time).
std::string utc_text(std::chrono::sys_seconds time);
// "2026-01-02T03:04:05.678Z"
std::string utc_text(std::chrono::sys_time<std::chrono::milliseconds> time);

// Now, in whole seconds.
std::string utc_now();

}  // namespace mgpu
