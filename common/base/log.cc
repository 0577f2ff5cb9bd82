#include "common/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <atomic>
#include <chrono>
#include <memory>

#include "common/base/log_line.h"
#include "common/base/text.h"

namespace mgpu {
namespace {

using spdlog::level::level_enum;

std::atomic<bool> g_json = false;

// Never destroyed: threads may log while the process ends.
spdlog::logger& logger() {
  static spdlog::logger* const kLogger = [] {
    auto* made = new spdlog::logger("mgpu", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->set_level(level_enum::info);
    made->flush_on(level_enum::trace);
    return made;
  }();
  return *kLogger;
}

void write(level_enum level, std::string_view name, std::string_view message, Fields fields) {
  if (!logger().should_log(level)) return;
  const auto line_of = g_json ? json_log_line : text_log_line;
  const auto time = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const std::string line = line_of(time, name, message, fields);
  logger().log(level, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace

void log_debug(std::string_view message, Fields fields) {
  write(level_enum::debug, "debug", message, fields);
}

void log_info(std::string_view message, Fields fields) {
  write(level_enum::info, "info", message, fields);
}

void log_warn(std::string_view message, Fields fields) {
  write(level_enum::warn, "warn", message, fields);
}

void log_error(std::string_view message, Fields fields) {
  write(level_enum::err, "error", message, fields);
}

Result<void> set_log_level(std::string_view level) {
  struct Level {
    std::string_view name;
    level_enum value;
  };
  for (const auto& [name, value] :
       {Level{"debug", level_enum::debug}, Level{"info", level_enum::info},
        Level{"warn", level_enum::warn}, Level{"error", level_enum::err},
        Level{"off", level_enum::off}}) {
    if (name != level) continue;
    logger().set_level(value);
    return {};
  }
  return error("log level must be debug, info, warn, error or off, found " + in_quotes(level));
}

Result<void> set_log_format(std::string_view format) {
  if (format != "text" && format != "json") {
    return error("log format must be text or json, found " + in_quotes(format));
  }
  g_json = format == "json";
  return {};
}

}  // namespace mgpu
