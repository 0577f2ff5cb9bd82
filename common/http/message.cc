#include "common/http/message.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "common/base/text.h"

namespace mgpu::http {

namespace {

std::optional<char> hex_byte(std::string_view digits) {
  unsigned char value = 0;
  const auto [end, failed] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (failed != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return static_cast<char>(value);
}

// A "%" that two hexadecimal digits do not follow stands for itself.
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte =
        text[i] == '%' && text.size() - i > 2 ? hex_byte(text.substr(i + 1, 2)) : std::nullopt;
    out += byte ? *byte : text[i] == '+' ? ' ' : text[i];
    if (byte) i += 2;
  }
  return out;
}

}  // namespace

Response error_response(int status, const std::string& message) {
  return {.status = status, .body = "{\"error\": \"" + json_escaped(message) + "\"}\n"};
}

std::string query_value(const std::string& query, const std::string& name) {
  std::string_view rest = query;
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    if (percent_decoded(pair.substr(0, equals)) != name) continue;
    return equals == pair.size() ? "" : percent_decoded(pair.substr(equals + 1));
  }
  return "";
}

}  // namespace mgpu::http
