// The time as Kubernetes objects have it (metav1.Time): "2026-01-02T03:04:05Z". Thread-safe.
#pragma once

#include <chrono>
#include <string>

namespace mgpu {

std::string utc_text(std::chrono::sys_seconds time);
// With microseconds, as metav1.MicroTime has them: "2026-01-02T03:04:05.000006Z".
std::string utc_micro_text(std::chrono::sys_time<std::chrono::microseconds> time);
// The current time of the wall clock.
std::string utc_now();
std::string utc_micro_now();

}  // namespace mgpu
