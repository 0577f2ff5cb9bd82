#include "common/base/log_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/base/utc_text.h"

namespace mgpu {
namespace {

std::string escaped(std::string_view value) {
  const std::string_view shown = cut_text(value, kLogValueMax);
  return json_escaped(shown) + (shown.size() < value.size() ? "..." : "");
}

// Every byte of a bare value is printable ASCII and none is a delimiter.
bool is_bare(std::string_view value) {
  return !value.empty() && value.size() <= kLogValueMax &&
         std::all_of(value.begin(), value.end(), [](char c) {
           return c > ' ' && c < 0x7F && c != '"' && c != '=' && c != '\\';
         });
}

}  // namespace

std::string text_log_line(LogTime time, std::string_view level, std::string_view message,
                          Fields fields) {
  std::string line = fmt::format("{} {} \"{}\"", utc_text(time), level, escaped(message));
  for (const Field& field : fields) {
    const char* form = is_bare(field.value) ? " {}={}" : " {}=\"{}\"";
    line += fmt::format(fmt::runtime(form), field.key, escaped(field.value));
  }
  return line;
}

std::string json_log_line(LogTime time, std::string_view level, std::string_view message,
                          Fields fields) {
  std::string line = fmt::format(R"({{"time":"{}","level":"{}","message":"{}")", utc_text(time),
                                 level, escaped(message));
  for (const Field& field : fields) {
    line += fmt::format(R"(,"{}":"{}")", escaped(field.key), escaped(field.value));
  }
  return line + '}';
}

}  // namespace mgpu
