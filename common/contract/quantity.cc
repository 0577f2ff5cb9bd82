#include "common/contract/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/multiprecision/cpp_int.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "common/base/text.h"
#include "common/base/units.h"
#include "common/contract/limits.h"

namespace mgpu {
namespace {

using boost::multiprecision::cpp_int;

enum class Form { kDecimal, kBinary, kExponent };

// sign * digits * 10^exponent
struct Number {
  bool negative = false;
  cpp_int digits;
  int exponent = 0;
  Form form = Form::kDecimal;
};

struct Suffix {
  std::string_view text;
  int exponent;  // of ten
  int bits;      // exponent of two
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
                                            {"Ki", 0, 10},
                                            {"Mi", 0, 20},
                                            {"Gi", 0, 30},
                                            {"Ti", 0, 40},
                                            {"Pi", 0, 50},
                                            {"Ei", 0, 60}}};
constexpr int kNano = -9;
constexpr int kExa = 18;
constexpr int kExbi = 60;

// Exponents are cut to it. No text is long enough for digits that make up for it, so that a number
// whose exponent was cut is either next to nothing or too much.
constexpr int kExponentMax = 1000;
constexpr int kCanonicalExponentMax = kExponentMax - kQuantityBytesMax;

std::string_view take_digits(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  return digits;
}

// True where there was a minus.
bool take_sign(std::string_view& text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  return negative;
}

void append_digits(cpp_int& number, std::string_view digits) {
  for (const char digit : digits) {
    number *= 10;
    number += digit - '0';
  }
}

bool read_exponent(std::string_view text, Number& number) {
  const bool negative = take_sign(text);
  const std::string_view digits = take_digits(text);
  if (digits.empty() || !text.empty()) return false;
  int exponent = 0;
  const auto read = std::from_chars(digits.begin(), digits.end(), exponent);
  if (read.ec != std::errc() || exponent > kExponentMax) exponent = kExponentMax;
  number.exponent += negative ? -exponent : exponent;
  number.form = Form::kExponent;
  return true;
}

bool apply_suffix(std::string_view text, Number& number) {
  const auto suffix = std::find_if(kSuffixes.begin(), kSuffixes.end(),
                                   [&](const Suffix& each) { return each.text == text; });
  if (suffix == kSuffixes.end()) {
    const bool scientific = text[0] == 'e' || text[0] == 'E';
    return scientific && read_exponent(text.substr(1), number);
  }
  number.exponent += suffix->exponent;
  number.digits <<= suffix->bits;
  if (suffix->bits > 0) number.form = Form::kBinary;
  return true;
}

// REQUIRES: text.size() <= kQuantityBytesMax.
std::optional<Number> read_number(std::string_view text) {
  Number number;
  number.negative = take_sign(text);
  const std::string_view whole = take_digits(text);
  std::string_view fraction;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    fraction = take_digits(text);
  }
  if (whole.empty() && fraction.empty()) return std::nullopt;
  append_digits(number.digits, whole);
  append_digits(number.digits, fraction);
  number.exponent = -static_cast<int>(fraction.size());
  if (!apply_suffix(text, number)) return std::nullopt;
  return number.digits.is_zero() ? Number{} : number;
}

struct Rounded {
  cpp_int value;
  bool exact;
};

// digits * 10^exponent, rounded up to a whole number.
Rounded round_up(const cpp_int& digits, int exponent) {
  const cpp_int power = pow(cpp_int(10), static_cast<unsigned>(std::abs(exponent)));
  if (exponent >= 0) return {digits * power, true};
  Rounded rounded{0, true};
  cpp_int rest;
  divide_qr(digits, power, rounded.value, rest);
  rounded.exact = rest.is_zero();
  if (!rounded.exact) ++rounded.value;
  return rounded;
}

Error complaint(std::string_view field, std::string_view expected, std::string_view text) {
  return error(fmt::format("{} must be {}, found {}", field, expected, in_quotes(text)));
}

// The value times 10^`power`.
Result<Rounded> parse_amount(std::string_view field, std::string_view text, int power) {
  if (text.size() > kQuantityBytesMax) {
    return complaint(field, "a quantity of at most 256 characters", text);
  }
  const auto number = read_number(text);
  if (!number) return complaint(field, "a whole number such as 50, 8k or 2Ki", text);
  if (number->negative) return complaint(field, "zero or more", text);
  return round_up(number->digits, number->exponent + power);
}

Result<std::int64_t> in_range(std::string_view field, std::string_view text, const cpp_int& value) {
  if (value > Percent::kMax) return complaint(field, "at most 2^62", text);
  return value.convert_to<std::int64_t>();
}

// --- the canonical form --------------------------------------------------------------------------

std::string_view suffix_text(int exponent, int bits) {
  const auto suffix = std::find_if(kSuffixes.begin(), kSuffixes.end(), [&](const Suffix& each) {
    return each.exponent == exponent && each.bits == bits;
  });
  return suffix == kSuffixes.end() ? "" : suffix->text;
}

// The fewest digits that leave an exponent divisible by three, which its suffixes need.
std::string decimal_text(const Number& number) {
  std::string digits = number.digits.str();
  if (digits == "0") return digits;
  const std::size_t zeros = digits.size() - 1 - digits.find_last_not_of('0');
  digits.resize(digits.size() - zeros);
  const int least = number.exponent + static_cast<int>(zeros);
  int exponent = number.form == Form::kExponent ? least : std::min(least, kExa);
  exponent -= (exponent % 3 + 3) % 3;
  digits.append(static_cast<std::size_t>(least - exponent), '0');
  if (exponent == 0) return digits;
  if (number.form == Form::kExponent) return fmt::format("{}e{}", digits, exponent);
  return digits.append(suffix_text(exponent, 0));
}

std::string binary_text(cpp_int value) {
  const int twos = static_cast<int>(lsb(value));
  const int bits = std::min(twos - twos % 10, kExbi);
  value >>= bits;
  return value.str().append(suffix_text(0, bits));
}

}  // namespace

Result<std::int64_t> parse_scaled_quantity(std::string_view field, std::string_view text,
                                           int power) {
  const auto amount = parse_amount(field, text, power);
  if (!amount) return amount.error();
  return in_range(field, text, amount->value);
}

Result<std::int64_t> parse_whole_quantity(std::string_view field, std::string_view text) {
  const auto amount = parse_amount(field, text, 0);
  if (!amount) return amount.error();
  if (!amount->exact) return complaint(field, "a whole number", text);
  return in_range(field, text, amount->value);
}

std::optional<CanonicalQuantity> canonical_quantity(std::string_view text) {
  if (text.size() > kQuantityBytesMax) return std::nullopt;
  auto number = read_number(text);
  if (!number || number->exponent > kCanonicalExponentMax) return std::nullopt;
  if (number->exponent < kNano) {
    number->digits = round_up(number->digits, number->exponent - kNano).value;
    number->exponent = kNano;
  }
  Rounded whole = round_up(number->digits, number->exponent);
  constexpr auto kBinaryMax = std::numeric_limits<std::int64_t>::max();
  if (number->form == Form::kBinary && whole.value > kBinaryMax) {
    number->digits = kBinaryMax;
    number->exponent = 0;
    whole = {kBinaryMax, true};
  }
  const bool binary = number->form == Form::kBinary && whole.exact && whole.value >= 1024;
  const double size = number->digits.convert_to<double>() * std::pow(10.0, number->exponent);
  return CanonicalQuantity{
      (number->negative ? "-" : "") + (binary ? binary_text(whole.value) : decimal_text(*number)),
      number->negative ? -size : size, whole.exact};
}

}  // namespace mgpu
