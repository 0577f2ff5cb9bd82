// Text from outside, made fit for an error sentence, a log line or JSON. Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/limits.h"

namespace mgpu {

// ASCII alone, whatever the locale of the process says.
constexpr char to_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
std::string lower_case(std::string_view text);

// The length of the well-formed UTF-8 sequence at `at`, 1 to 4; 0 when there is none.
// REQUIRES: at < text.size().
std::size_t utf8_sequence_at(std::string_view text, std::size_t at);

// The longest beginning of at most `bytes` bytes that does not end within a UTF-8 sequence.
std::string_view cut_text(std::string_view text, std::size_t bytes);

// `text` as the inside of a JSON string. The result is valid UTF-8 whatever comes in: bytes that
// are not become U+FFFD.
std::string json_escaped(std::string_view text);

// A value for an error sentence: in quotes, escaped, and cut with "..." to
// kQuotedValueMax bytes.
std::string in_quotes(std::string_view value);

}  // namespace mgpu
