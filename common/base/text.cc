#include "common/base/text.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "common/base/limits.h"

namespace mgpu {
namespace {

// One row of table 3-7 of the Unicode standard: which second byte may follow a first byte. The
// bytes after it are always 80..BF.
struct Utf8Row {
  std::uint8_t first_least, first_most, second_least, second_most;
  std::size_t length;
};
constexpr std::array<Utf8Row, 8> kUtf8Rows{{{0xC2, 0xDF, 0x80, 0xBF, 2},
                                            {0xE0, 0xE0, 0xA0, 0xBF, 3},
                                            {0xE1, 0xEC, 0x80, 0xBF, 3},
                                            {0xED, 0xED, 0x80, 0x9F, 3},
                                            {0xEE, 0xEF, 0x80, 0xBF, 3},
                                            {0xF0, 0xF0, 0x90, 0xBF, 4},
                                            {0xF1, 0xF3, 0x80, 0xBF, 4},
                                            {0xF4, 0xF4, 0x80, 0x8F, 4}}};

std::uint8_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<std::uint8_t>(text[at]);
}

bool is_continuation(std::uint8_t byte) {
  return byte >= 0x80 && byte <= 0xBF;
}

bool row_fits(const Utf8Row& row, std::string_view text, std::size_t at) {
  if (text.size() - at < row.length) return false;
  const std::uint8_t second = byte_at(text, at + 1);
  if (second < row.second_least || second > row.second_most) return false;
  for (std::size_t i = 2; i < row.length; ++i) {
    if (!is_continuation(byte_at(text, at + i))) return false;
  }
  return true;
}

// Appends one ASCII character as it stands in a JSON string.
void append_escaped(std::string& out, char c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto byte = static_cast<std::uint8_t>(c);
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  if (byte >= 0x20 && byte != 0x7F) {
    out += c;
    return;
  }
  out += "\\u00";
  out += kHex[byte >> 4];
  out += kHex[byte & 0xF];
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = to_lower(c);
  return lower;
}

std::size_t utf8_sequence_at(std::string_view text, std::size_t at) {
  const std::uint8_t first = byte_at(text, at);
  if (first < 0x80) return 1;
  for (const Utf8Row& row : kUtf8Rows) {
    if (first < row.first_least || first > row.first_most) continue;
    return row_fits(row, text, at) ? row.length : 0;
  }
  return 0;
}

std::string_view cut_text(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  // A sequence has at most three continuation bytes; longer runs of them are no text anyway.
  std::size_t end = bytes;
  const std::size_t least = bytes - std::min<std::size_t>(bytes, 3);
  while (end > least && is_continuation(byte_at(text, end))) --end;
  return text.substr(0, end);
}

std::string json_escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_sequence_at(text, i);
    if (length == 1) {
      append_escaped(out, text[i]);
    } else if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else {
      out += text.substr(i, length);
    }
    i += std::max<std::size_t>(length, 1);
  }
  return out;
}

std::string in_quotes(std::string_view value) {
  const std::string_view shown = cut_text(value, kQuotedValueMax);
  return '"' + json_escaped(shown) + (shown.size() < value.size() ? "...\"" : "\"");
}

}  // namespace mgpu
