#include "common/option_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include "common/text.h"

namespace mgpu {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t milliseconds;
};
// Smallest first, each a multiple of the one before.
constexpr std::array<Unit, 4> kUnits{{{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}}};

Error must_be(std::string_view source, const std::string& expected, std::string_view found) {
  return error(std::string(source) + " must be " + expected + ", found " + in_quotes(found));
}

struct Number {
  std::int64_t value;
  std::string_view rest;
};

std::optional<Number> take_number(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, number.value);
  if (failure != std::errc()) return std::nullopt;
  number.rest = text.substr(static_cast<std::size_t>(stop - text.data()));
  return number;
}

std::optional<Duration> read_duration(std::string_view text) {
  const auto number = take_number(text);
  if (!number || number->value < 0) return std::nullopt;
  for (const Unit& unit : kUnits) {
    if (unit.name != number->rest) continue;
    if (number->value > std::numeric_limits<std::int64_t>::max() / unit.milliseconds) break;
    return Duration(number->value * unit.milliseconds);
  }
  return std::nullopt;
}

}  // namespace

Result<std::int64_t> parse_number(std::string_view source, std::string_view text,
                                  std::int64_t least, std::int64_t most) {
  const auto number = take_number(text);
  if (number && number->rest.empty() && number->value >= least && number->value <= most) {
    return number->value;
  }
  return must_be(
      source, "a whole number from " + std::to_string(least) + " to " + std::to_string(most), text);
}

Result<Duration> parse_duration(std::string_view source, std::string_view text, Duration least,
                                Duration most) {
  const auto duration = read_duration(text);
  if (duration && *duration >= least && *duration <= most) return *duration;
  return must_be(source,
                 "a time from " + format_duration(least) + " to " + format_duration(most) +
                     " such as 500ms, 2s or 5m",
                 text);
}

std::string format_duration(Duration duration) {
  std::int64_t value = duration.count();
  std::string_view name = kUnits[0].name;
  for (const Unit& unit : kUnits) {
    if (duration.count() == 0 || duration.count() % unit.milliseconds != 0) break;
    value = duration.count() / unit.milliseconds;
    name = unit.name;
  }
  return std::to_string(value) + std::string(name);
}

Result<bool> parse_switch(std::string_view source, std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return must_be(source, "true or false", text);
}

Result<std::string> parse_choice(std::string_view source, std::string_view text,
                                 const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return std::string(text);
  return must_be(source, join_choices(choices), text);
}

std::string join_choices(const std::vector<std::string>& choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) text += i + 1 == choices.size() ? " or " : ", ";
    text += choices[i];
  }
  return text;
}

std::string environment_name(std::string_view prefix, std::string_view flag) {
  std::string name = std::string(prefix) + "_" + std::string(flag);
  for (char& c : name) {
    if (c == '-') c = '_';
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return name;
}

}  // namespace mgpu
