#include "common/http/message.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "common/base/text.h"

namespace mgpu::http {

namespace {

// A "%" without two hexadecimal digits after it is kept.
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (text[i] == '%' && read.ptr - digits.data() == 2) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      // Go's url.Values and HTML forms write a blank as "+".
      out += text[i] == '+' ? ' ' : text[i];
    }
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
