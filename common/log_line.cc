#include "common/log_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/limits.h"
#include "common/text.h"

namespace mgpu {
namespace {

std::string rfc3339(LogTime time) {
  using namespace std::chrono;
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

std::string escaped(std::string_view value) {
  const std::string_view shown = cut_text(value, limits::kLogValueMax);
  return json_escaped(shown) + (shown.size() < value.size() ? "..." : "");
}

// Every byte of a bare value is printable ASCII and none is a delimiter.
bool is_bare(std::string_view value) {
  return !value.empty() && value.size() <= limits::kLogValueMax &&
         std::all_of(value.begin(), value.end(), [](char c) {
           return c > ' ' && c < 0x7F && c != '"' && c != '=' && c != '\\';
         });
}

}  // namespace

std::string text_log_line(LogTime time, std::string_view level, std::string_view message,
                          Fields fields) {
  std::string line = fmt::format("{} {} \"{}\"", rfc3339(time), level, escaped(message));
  for (const Field& field : fields) {
    const char* form = is_bare(field.value) ? " {}={}" : " {}=\"{}\"";
    line += fmt::format(fmt::runtime(form), field.key, escaped(field.value));
  }
  return line;
}

std::string json_log_line(LogTime time, std::string_view level, std::string_view message,
                          Fields fields) {
  std::string line = fmt::format(R"({{"time":"{}","level":"{}","message":"{}")", rfc3339(time),
                                 level, escaped(message));
  for (const Field& field : fields) {
    line += fmt::format(R"(,"{}":"{}")", escaped(field.key), escaped(field.value));
  }
  return line + '}';
}

}  // namespace mgpu
