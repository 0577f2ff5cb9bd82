// Times in texts of others, as in RFC 3339. utc_text.h writes them. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace mgpu {

// "2026-01-02T03:04:05Z", with an optional fraction, which is cut, and "+01:00" instead of "Z".
std::optional<std::chrono::sys_seconds> read_rfc3339(std::string_view text);

}  // namespace mgpu
