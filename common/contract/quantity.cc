#include "common/contract/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/multiprecision/cpp_int.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "common/base/check.h"
#include "common/base/text.h"
#include "common/base/units.h"

namespace mgpu {
namespace {

using boost::multiprecision::cpp_int;

enum class Form { kDecimal, kBinary, kExponent };

// integer * 10^exponent
struct Number {
  cpp_int integer;
  int exponent = 0;
  Form form = Form::kDecimal;
};

// The suffixes of 10^-9, 10^-6 .. 10^18, and of 2^0, 2^10 .. 2^60.
constexpr std::array<std::string_view, 10> kDecimalSuffixes{"n", "u", "m", "",  "k",
                                                            "M", "G", "T", "P", "E"};
constexpr std::array<std::string_view, 7> kBinarySuffixes{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
constexpr int kNano = -9;
constexpr int kExa = 18;
constexpr int kExbi = 60;

// Larger exponents are reduced to it. A text is not long enough for digits that compensate for it:
// a number whose exponent was reduced is still almost zero, or too large.
constexpr int kExponentMax = 1000;
// The digits, in billionths, of the largest canonical quantity.
constexpr std::size_t kCanonicalDigitsMax = kExponentMax - kQuantityBytesMax + 10;

cpp_int power_of_ten(int exponent) {
  return pow(cpp_int(10), static_cast<unsigned>(exponent));
}

struct Rounded {
  cpp_int value;
  bool exact;
};

// integer * 10^exponent, rounded up. REQUIRES: integer >= 0.
Rounded rounded_up(const cpp_int& integer, int exponent) {
  MGPU_DEBUG_CHECK(integer >= 0, "an amount below zero is rounded up");
  if (exponent == 0) return {integer, true};
  const cpp_int power = power_of_ten(std::abs(exponent));
  if (exponent > 0) return {integer * power, true};
  const cpp_int value = (integer + power - 1) / power;
  return {value, value * power == integer};
}

std::string_view take_digits(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  return digits;
}

// True for a minus.
bool take_sign(std::string_view& text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  return negative;
}

// The exponent of "e3" or "E-3".
std::optional<int> read_exponent(std::string_view text) {
  if (!text.starts_with('e') && !text.starts_with('E')) return std::nullopt;
  text.remove_prefix(1);
  const bool negative = take_sign(text);
  const std::string_view digits = take_digits(text);
  if (digits.empty() || !text.empty()) return std::nullopt;
  int exponent = 0;
  const auto read = std::from_chars(digits.begin(), digits.end(), exponent);
  if (read.ec != std::errc() || exponent > kExponentMax) exponent = kExponentMax;
  return negative ? -exponent : exponent;
}

// REQUIRES: text.size() <= kQuantityBytesMax.
std::optional<Number> read_number(std::string_view text) {
  MGPU_DEBUG_CHECK(text.size() <= kQuantityBytesMax, "a quantity is too long to be read");
  const bool negative = take_sign(text);
  std::string digits(take_digits(text));
  int exponent = 0;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const std::string_view fraction = take_digits(text);
    digits += fraction;
    exponent = -static_cast<int>(fraction.size());
  }
  if (digits.empty()) return std::nullopt;
  // A cpp_int with a leading zero would be octal.
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  cpp_int integer(digits);
  Form form = Form::kDecimal;
  const auto decimal = std::find(kDecimalSuffixes.begin(), kDecimalSuffixes.end(), text);
  const auto binary = std::find(kBinarySuffixes.begin(), kBinarySuffixes.end(), text);
  if (decimal != kDecimalSuffixes.end()) {
    exponent += kNano + 3 * static_cast<int>(decimal - kDecimalSuffixes.begin());
  } else if (binary != kBinarySuffixes.end()) {
    integer <<= 10 * (binary - kBinarySuffixes.begin());
    form = Form::kBinary;
  } else if (const auto scientific = read_exponent(text)) {
    exponent += *scientific;
    form = Form::kExponent;
  } else {
    return std::nullopt;
  }
  if (integer.is_zero()) return Number{};
  if (negative) integer = -integer;
  return Number{integer, exponent, form};
}

Error complaint(std::string_view field, std::string_view expected, std::string_view text) {
  return error(fmt::format("{} must be {}, found {}", field, expected, in_quotes(text)));
}

// The value times 10^power.
Result<Rounded> parse_amount(std::string_view field, std::string_view text, int power) {
  if (text.size() > kQuantityBytesMax) {
    return complaint(field, "a quantity of at most 256 characters", text);
  }
  const auto number = read_number(text);
  if (!number) return complaint(field, "a whole number such as 50, 8k or 2Ki", text);
  if (number->integer < 0) return complaint(field, "zero or more", text);
  return rounded_up(number->integer, number->exponent + power);
}

Result<std::int64_t> in_range(std::string_view field, std::string_view text, const cpp_int& value) {
  if (value > Percent::kMax) return complaint(field, "at most 2^62", text);
  return value.convert_to<std::int64_t>();
}

// --- the canonical form --------------------------------------------------------------------------

// Infinity if it is larger than each double, for which the conversion of cpp_int throws an
// exception.
double value_of(const cpp_int& billionths) {
  if (billionths.is_zero()) return 0;
  const int shift = std::max(0, static_cast<int>(msb(billionths)) - 62);
  const auto leading = cpp_int(billionths >> shift).convert_to<std::int64_t>();
  return std::ldexp(static_cast<double>(leading) / 1e9, shift);
}

// With the fewest digits that leave an exponent that is a multiple of three.
std::string decimal_text(const cpp_int& billionths, Form form) {
  if (billionths.is_zero()) return "0";
  std::string digits = billionths.str();
  const std::size_t zeros = digits.size() - 1 - digits.find_last_not_of('0');
  digits.resize(digits.size() - zeros);
  const int least = kNano + static_cast<int>(zeros);
  int exponent = form == Form::kExponent ? least : std::min(least, kExa);
  exponent -= (exponent % 3 + 3) % 3;
  digits.append(static_cast<std::size_t>(least - exponent), '0');
  if (exponent != 0 && form == Form::kExponent) return fmt::format("{}e{}", digits, exponent);
  return digits.append(kDecimalSuffixes.at(static_cast<std::size_t>(exponent - kNano) / 3));
}

// REQUIRES: value > 0.
std::string binary_text(cpp_int value) {
  MGPU_DEBUG_CHECK(value > 0, "a binary text of no amount");
  const int twos = static_cast<int>(lsb(value));
  const int bits = std::min(twos - twos % 10, kExbi);
  value >>= bits;
  return value.str().append(kBinarySuffixes.at(static_cast<std::size_t>(bits / 10)));
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
  const auto number = read_number(text);
  if (!number) return std::nullopt;
  const cpp_int billion = power_of_ten(-kNano);
  const cpp_int binary_max = std::numeric_limits<std::int64_t>::max() * billion;
  cpp_int billionths = rounded_up(abs(number->integer), number->exponent - kNano).value;
  if (billionths.str().size() > kCanonicalDigitsMax) return std::nullopt;
  if (number->form == Form::kBinary && billionths > binary_max) billionths = binary_max;
  const cpp_int integer = billionths / billion;
  const bool whole = integer * billion == billionths;
  const bool binary = number->form == Form::kBinary && whole && integer >= 1024;
  const bool negative = number->integer < 0;
  const double value = value_of(billionths);
  return CanonicalQuantity{
      (negative ? "-" : "") +
          (binary ? binary_text(integer) : decimal_text(billionths, number->form)),
      negative ? -value : value, whole};
}

}  // namespace mgpu
