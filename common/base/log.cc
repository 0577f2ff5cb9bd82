#include "common/base/log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "common/base/limits.h"
#include "common/base/text.h"

namespace mgpu {
namespace {

struct Level {
  std::string_view name;
  spdlog::level::level_enum value;
};
constexpr Level kDebug{"debug", spdlog::level::debug};
constexpr Level kInfo{"info", spdlog::level::info};
constexpr Level kWarn{"warn", spdlog::level::warn};
constexpr Level kError{"error", spdlog::level::err};
constexpr Level kOff{"off", spdlog::level::off};

// spdlog writes the time, in UTC.
constexpr const char* kTextPattern = "%Y-%m-%dT%H:%M:%S.%eZ %v";
constexpr const char* kJsonPattern = R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ",%v})";

std::atomic<bool> g_json = false;

// Never destroyed, since threads may log while the process exits.
spdlog::logger& logger() {
  static spdlog::logger* const kLogger = [] {
    auto* made = new spdlog::logger("mgpu", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern(kTextPattern, spdlog::pattern_time_type::utc);
    made->set_level(kInfo.value);
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *kLogger;
}

std::string escaped(std::string_view value) {
  const std::string_view shown = cut_text(value, kLogValueMax);
  return json_escaped(shown) + (shown.size() < value.size() ? "..." : "");
}

// A value without quotes is printable ASCII without delimiters.
bool needs_quotes(std::string_view value) {
  return value.empty() || value.size() > kLogValueMax ||
         !std::all_of(value.begin(), value.end(), [](char c) {
           return c > ' ' && c < 0x7F && c != '"' && c != '=' && c != '\\';
         });
}

void write(const Level& level, std::string_view message, Fields fields) {
  if (!logger().should_log(level.value)) return;
  std::string line;
  if (g_json) {
    line = fmt::format(R"("level":"{}","message":"{}")", level.name, escaped(message));
    for (const Field& field : fields) {
      line += fmt::format(R"(,"{}":"{}")", escaped(field.key), escaped(field.value));
    }
  } else {
    line = fmt::format("{} \"{}\"", level.name, escaped(message));
    for (const Field& field : fields) {
      const std::string_view quote = needs_quotes(field.value) ? "\"" : "";
      line += fmt::format(" {}={}{}{}", field.key, quote, escaped(field.value), quote);
    }
  }
  logger().log(level.value, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace

void log_debug(std::string_view message, Fields fields) {
  write(kDebug, message, fields);
}

void log_info(std::string_view message, Fields fields) {
  write(kInfo, message, fields);
}

void log_warn(std::string_view message, Fields fields) {
  write(kWarn, message, fields);
}

void log_error(std::string_view message, Fields fields) {
  write(kError, message, fields);
}

Result<void> set_log_level(std::string_view name) {
  for (const Level& level : {kDebug, kInfo, kWarn, kError, kOff}) {
    if (level.name != name) continue;
    logger().set_level(level.value);
    return {};
  }
  return error("log level must be debug, info, warn, error or off, found " + in_quotes(name));
}

Result<void> set_log_format(std::string_view format) {
  if (format != "text" && format != "json") {
    return error("log format must be text or json, found " + in_quotes(format));
  }
  g_json = format == "json";
  logger().set_pattern(g_json ? kJsonPattern : kTextPattern, spdlog::pattern_time_type::utc);
  return {};
}

}  // namespace mgpu
