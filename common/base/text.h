// Prepares text from outside for error sentences, log lines and JSON, and writes durations. The
// functions are pure and thread-safe.
#pragma once

#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "common/base/limits.h"

namespace mgpu {

// Converts ASCII only, in every locale, as lower_case() does.
constexpr char to_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
std::string lower_case(std::string_view text);

// The length of the well-formed UTF-8 sequence at `at`, 1 to 4, or 0 if there is none.
// REQUIRES: at < text.size().
std::size_t utf8_sequence_at(std::string_view text, std::size_t at);

// `text` as UTF-8: with U+FFFD in place of each byte that is not.
std::string valid_text(std::string_view text);

// The longest beginning of at most `bytes` bytes that does not end within a UTF-8 sequence.
std::string_view cut_text(std::string_view text, std::size_t bytes);

// `text` as the inside of a JSON string. The result is always valid UTF-8: each byte of `text` that
// is not becomes U+FFFD.
std::string json_escaped(std::string_view text);

// `text` without the blanks and ends of lines at both ends.
std::string_view trimmed(std::string_view text);

// Whether `text` is a label of a DNS name as Kubernetes has them, in lower case (apimachinery's
// dns1123LabelFmt), of any length.
bool is_dns_label(std::string_view text);

// Removes the first line from `text`, and returns it without its end.
std::string_view take_line(std::string_view& text);

// A value for an error sentence: in quotes, escaped, and cut with "..." after kQuotedValueMax
// bytes.
std::string in_quotes(std::string_view value);

// "1 card", "2 cards".
std::string counted(std::int64_t count, std::string_view one);

// All of `text` as a number, without a plus or blanks; none if it is not one.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, number);
  return failure == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

struct DurationUnit {
  std::string_view name;
  std::int64_t milliseconds;
};
// Ascending; each is a multiple of the one before.
inline constexpr std::array<DurationUnit, 4> kDurationUnits{
    {{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}}};
// In the largest unit that is exact: "90s", "2m".
std::string duration_text(std::chrono::milliseconds duration);

}  // namespace mgpu
