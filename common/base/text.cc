#include "common/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include "common/base/limits.h"

namespace mgpu {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

std::uint8_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<std::uint8_t>(text[at]);
}

bool is_continuation(std::uint8_t byte) {
  return byte >= 0x80 && byte <= 0xBF;
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = to_lower(c);
  return lower;
}

std::size_t utf8_sequence_at(std::string_view text, std::size_t at) {
  constexpr std::array<std::uint32_t, 5> kLeastOfLength = {0, 0, 0x80, 0x800, 0x10000};
  const std::uint8_t first = byte_at(text, at);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (first < 0xC2 || first > 0xF4 || text.size() - at < length) return 0;
  std::uint32_t code = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const std::uint8_t byte = byte_at(text, at + i);
    if (!is_continuation(byte)) return 0;
    code = code << 6 | (byte & 0x3FU);
  }
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code >= kLeastOfLength[length] && code <= 0x10FFFF && !surrogate ? length : 0;
}

std::string valid_text(std::string_view text) {
  if (std::ranges::all_of(text, [](char c) { return static_cast<signed char>(c) >= 0; }))
    return std::string(text);
  std::string valid;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_sequence_at(text, at);
    valid += length == 0 ? kReplacement : text.substr(at, length);
    at += std::max<std::size_t>(length, 1);
  }
  return valid;
}

std::string_view cut_text(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  // A sequence has at most three continuation bytes; a longer run of them is not UTF-8.
  std::size_t end = bytes;
  const std::size_t least = bytes - std::min<std::size_t>(bytes, 3);
  while (end > least && is_continuation(byte_at(text, end))) --end;
  return text.substr(0, end);
}

std::string json_escaped(std::string_view text) {
  constexpr std::string_view kSpecial = "\"\\\n\r\t";
  constexpr std::string_view kEscapes = "\"\\nrt";
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_sequence_at(text, i);
    if (length == 0) {
      // JSON is UTF-8, and the texts of tenants and drivers need not be.
      out += kReplacement;
    } else if (const std::size_t special = kSpecial.find(text[i]); special != kSpecial.npos) {
      out += {'\\', kEscapes[special]};
    } else if (byte_at(text, i) < 0x20 || text[i] == 0x7F) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", byte_at(text, i));
    } else {
      out += text.substr(i, length);
    }
    i += std::max<std::size_t>(length, 1);
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

bool is_dns_label(std::string_view text) {
  return !text.empty() && text.front() != '-' && text.back() != '-' &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == text.npos;
}

std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

std::string in_quotes(std::string_view value) {
  const std::string_view shown = cut_text(value, kQuotedValueMax);
  return '"' + json_escaped(shown) + (shown.size() < value.size() ? "...\"" : "\"");
}

std::string counted(std::int64_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string duration_text(std::chrono::milliseconds duration) {
  const DurationUnit* exact = &kDurationUnits[0];
  for (const DurationUnit& unit : kDurationUnits) {
    if (duration.count() != 0 && duration.count() % unit.milliseconds == 0) exact = &unit;
  }
  return fmt::format("{}{}", duration.count() / exact->milliseconds, exact->name);
}

}  // namespace mgpu
