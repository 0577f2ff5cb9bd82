// How a log line looks (common/base/log.h). Pure; any thread.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "common/base/log.h"

namespace mgpu {

using LogTime = std::chrono::sys_time<std::chrono::milliseconds>;

// 2026-11-21T08:00:00.123Z info "pod bound" pod=default/a node=n1
std::string text_log_line(LogTime time, std::string_view level, std::string_view message,
                          Fields fields);

// {"time":"2026-11-21T08:00:00.123Z","level":"info","message":"pod bound","pod":"default/a"}
std::string json_log_line(LogTime time, std::string_view level, std::string_view message,
                          Fields fields);

}  // namespace mgpu
