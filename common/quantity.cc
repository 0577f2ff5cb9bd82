#include "common/quantity.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "common/limits.h"
#include "common/text.h"
#include "common/units.h"

namespace mgpu {
namespace {

// digits * 10^exponent * 1024^kibis, with digits most significant first.
struct Decimal {
  bool negative = false;
  std::string digits;
  int exponent = 0;
  int kibis = 0;
};

struct Suffix {
  std::string_view text;
  int exponent;
  int kibis;
};
constexpr std::array<Suffix, 16> kSuffixes{{{"", 0, 0},
                                            {"n", -9, 0},
                                            {"u", -6, 0},
                                            {"m", -3, 0},
                                            {"k", 3, 0},
                                            {"M", 6, 0},
                                            {"G", 9, 0},
                                            {"T", 12, 0},
                                            {"P", 15, 0},
                                            {"E", 18, 0},
                                            {"Ki", 0, 1},
                                            {"Mi", 0, 2},
                                            {"Gi", 0, 3},
                                            {"Ti", 0, 4},
                                            {"Pi", 0, 5},
                                            {"Ei", 0, 6}}};

// Beyond it every number is either nothing or too much.
constexpr int kExponentMax = 1000;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view take_digits(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
  const auto length = static_cast<std::size_t>(end - text.begin());
  const std::string_view digits = text.substr(0, length);
  text.remove_prefix(length);
  return digits;
}

// True when `text` started with a sign; `negative` says which.
void take_sign(std::string_view& text, bool& negative) {
  if (text.empty() || (text[0] != '-' && text[0] != '+')) return;
  negative = text[0] == '-';
  text.remove_prefix(1);
}

std::optional<int> read_exponent(std::string_view text) {
  bool negative = false;
  take_sign(text, negative);
  const std::string_view digits = take_digits(text);
  if (digits.empty() || !text.empty()) return std::nullopt;
  int value = 0;
  for (const char c : digits) value = std::min(value * 10 + (c - '0'), kExponentMax);
  return negative ? -value : value;
}

bool apply_suffix(std::string_view text, Decimal& number) {
  for (const Suffix& suffix : kSuffixes) {
    if (suffix.text != text) continue;
    number.exponent += suffix.exponent;
    number.kibis = suffix.kibis;
    return true;
  }
  if (text[0] != 'e' && text[0] != 'E') return false;
  const auto exponent = read_exponent(text.substr(1));
  number.exponent += exponent.value_or(0);
  return exponent.has_value();
}

std::optional<Decimal> read_decimal(std::string_view text) {
  Decimal number;
  take_sign(text, number.negative);
  number.digits = take_digits(text);
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const std::string_view fraction = take_digits(text);
    number.digits += fraction;
    number.exponent -= static_cast<int>(fraction.size());
  }
  if (number.digits.empty() || !apply_suffix(text, number)) return std::nullopt;
  return number;
}

void multiply(std::string& digits, int factor) {
  int carry = 0;
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    carry += (*digit - '0') * factor;
    *digit = static_cast<char>('0' + carry % 10);
    carry /= 10;
  }
  if (carry > 0) digits.insert(0, std::to_string(carry));
}

// Multiplies the powers of 1024 out, and moves zeros between digits and exponent, so that no digit
// is a leading or trailing zero.
void normalise(Decimal& number) {
  for (; number.kibis > 0; --number.kibis) multiply(number.digits, 1024);
  number.digits.erase(0, number.digits.find_first_not_of('0'));
  while (number.digits.ends_with('0')) {
    number.digits.pop_back();
    ++number.exponent;
  }
}

// Empty when over Amount's bound. REQUIRES: normalised, exponent >= 0.
std::optional<std::int64_t> to_integer(const Decimal& number) {
  constexpr std::int64_t kMax = Percent::kMax;
  const auto zeros = static_cast<std::size_t>(number.exponent);
  if (number.digits.size() + zeros > 19) return std::nullopt;  // 2^62 has 19 digits
  std::uint64_t value = 0;
  for (const char c : number.digits + std::string(zeros, '0')) {
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  if (value > static_cast<std::uint64_t>(kMax)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

// Drops the digits behind the point. True where they were not all zero. REQUIRES: normalised.
bool cut_fraction(Decimal& number) {
  if (number.exponent >= 0) return false;
  const auto behind = static_cast<std::size_t>(-number.exponent);
  number.digits.erase(number.digits.size() - std::min(behind, number.digits.size()));
  number.exponent = 0;
  return true;
}

Error complaint(std::string_view field, std::string_view expected, std::string_view text) {
  return error(std::string(field) + " must be " + std::string(expected) + ", found " +
               in_quotes(text));
}

// Normalised; zero has no digits.
Result<Decimal> read_number(std::string_view field, std::string_view text) {
  if (text.size() > limits::kQuantityBytesMax) {
    return complaint(field, "a quantity of at most 256 characters", text);
  }
  auto number = read_decimal(text);
  if (!number) return complaint(field, "a whole number such as 50, 8k or 2Ki", text);
  normalise(*number);
  if (number->negative && !number->digits.empty()) return complaint(field, "zero or more", text);
  return *std::move(number);
}

}  // namespace

Result<std::int64_t> parse_scaled_quantity(std::string_view field, std::string_view text,
                                           int power) {
  auto number = read_number(field, text);
  if (!number) return number.error();
  if (number->digits.empty()) return std::int64_t{0};
  number->exponent += power;
  const bool more = cut_fraction(*number);
  const auto value = to_integer(*number);
  if (!value) return complaint(field, "at most 2^62", text);
  return *value + (more ? 1 : 0);
}

Result<std::int64_t> parse_whole_quantity(std::string_view field, std::string_view text) {
  auto number = read_number(field, text);
  if (!number) return number.error();
  if (number->digits.empty()) return std::int64_t{0};
  if (number->exponent < 0) return complaint(field, "a whole number", text);
  const auto value = to_integer(*number);
  if (!value) return complaint(field, "at most 2^62", text);
  return *value;
}

}  // namespace mgpu
