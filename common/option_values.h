// Values of flags as text (common/options.h). Pure; any thread. `source` names the value in errors:
// "--port" or "MGPU_EXTENDER_PORT".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/executor.h"
#include "common/result.h"

namespace mgpu {

Result<std::int64_t> parse_number(std::string_view source, std::string_view text,
                                  std::int64_t least, std::int64_t most);

// A whole number and "ms", "s", "m" or "h".
Result<Duration> parse_duration(std::string_view source, std::string_view text, Duration least,
                                Duration most);
// In the largest unit that says it exactly: "90s", "2m".
std::string format_duration(Duration duration);

// "true" or "false".
Result<bool> parse_switch(std::string_view source, std::string_view text);

Result<std::string> parse_choice(std::string_view source, std::string_view text,
                                 const std::vector<std::string>& choices);

// "a, b or c"
std::string join_choices(const std::vector<std::string>& choices);

// "MGPU_EXTENDER" and "bind-concurrency" give "MGPU_EXTENDER_BIND_CONCURRENCY".
std::string environment_name(std::string_view prefix, std::string_view flag);

}  // namespace mgpu
