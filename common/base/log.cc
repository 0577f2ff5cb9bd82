#include "common/base/log.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/async.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <atomic>
#include <chrono>
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

// Never destroyed, like the one below, since threads may log while the process exits.
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

// Passes lines to logger(), and counts them.
class WrittenSink final : public spdlog::sinks::sink {
 public:
  void log(const spdlog::details::log_msg& line) override {
    logger().sinks().front()->log(line);
    ++written_;
  }
  void flush() override {}
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}
  std::uint64_t written() const { return written_; }

 private:
  std::atomic<std::uint64_t> written_ = 0;
};

// A queue of lines, and a thread that writes them.
class Background {
 public:
  // Lines have passed the level of logger().
  Background() { logger_->set_level(spdlog::level::trace); }
  void log(spdlog::level::level_enum level, spdlog::string_view_t line) {
    ++logged_;
    logger_->log(level, line);
  }
  bool empty() const { return sink_->written() + dropped() >= logged_; }
  std::size_t dropped() const { return pool_->overrun_counter(); }

 private:
  const std::shared_ptr<WrittenSink> sink_ = std::make_shared<WrittenSink>();
  const std::shared_ptr<spdlog::details::thread_pool> pool_ =
      std::make_shared<spdlog::details::thread_pool>(kLogLinesMax, 1);
  const std::shared_ptr<spdlog::async_logger> logger_ = std::make_shared<spdlog::async_logger>(
      "mgpu", sink_, pool_, spdlog::async_overflow_policy::overrun_oldest);
  std::atomic<std::uint64_t> logged_ = 0;
};

std::atomic<bool> g_in_background = false;

Background& background() {
  static auto* const kBackground = new Background;
  return *kBackground;
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
  const spdlog::string_view_t text(line.data(), line.size());
  g_in_background ? background().log(level.value, text) : logger().log(level.value, text);
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

void write_log_in_background() {
  background();
  g_in_background = true;
}

void end_log_in_background() {
  if (!g_in_background) return;
  const auto end = std::chrono::steady_clock::now() + kLogEndTimeout;
  while (!background().empty() && std::chrono::steady_clock::now() < end) {
    ::poll(nullptr, 0, static_cast<int>(kLogEndPoll.count()));
  }
  g_in_background = false;
}

std::size_t log_lines_dropped() {
  return g_in_background ? background().dropped() : 0;
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
