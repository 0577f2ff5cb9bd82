#include "common/kube/memory_quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>

#include "common/limits.h"

namespace mgpu::kube {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kBinary = "KMGTPE";       // followed by "i"
constexpr std::string_view kDecimal = "num kMGTPE";  // 10^-9, 10^-6, 10^-3, 1, ...
constexpr int kNano = -9;
constexpr int kExa = 18;
constexpr int kExponentMax = 100;

struct Number {
  bool negative = false;
  std::string digits;  // without leading or trailing zeros; empty = 0
  int exponent = 0;    // value = digits * 10^exponent
  bool binary = false;
  bool scientific = false;
};

std::string_view take_digits(std::string_view& text) {
  const std::string_view digits = text.substr(0, text.find_first_not_of(kDigits));
  text.remove_prefix(digits.size());
  return digits;
}

void times_1024(std::string& digits) {
  int carry = 0;
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    carry += (*digit - '0') * 1024;
    *digit = static_cast<char>('0' + carry % 10);
    carry /= 10;
  }
  if (carry > 0) digits.insert(0, std::to_string(carry));
}

void trim(Number& number) {
  number.digits.erase(0, std::min(number.digits.find_first_not_of('0'), number.digits.size()));
  while (number.digits.ends_with('0')) {
    number.digits.pop_back();
    ++number.exponent;
  }
  if (number.digits.empty()) number.exponent = 0;
}

bool read_exponent(std::string_view text, Number& number) {
  if (text.starts_with('+')) text.remove_prefix(1);
  int exponent = 0;
  const auto end = text.data() + text.size();
  const auto [read, code] = std::from_chars(text.data(), end, exponent);
  if (code != std::errc() || read != end) return false;
  number.exponent += std::clamp(exponent, -kExponentMax, kExponentMax);
  number.scientific = true;
  return true;
}

bool read_suffix(std::string_view suffix, Number& number) {
  if (suffix.empty()) return true;
  if (suffix.size() == 1) {
    const std::size_t at = kDecimal.find(suffix[0]);
    if (at == std::string_view::npos || suffix[0] == ' ') return false;
    number.exponent += kNano + 3 * static_cast<int>(at);
    return true;
  }
  const std::size_t at = kBinary.find(suffix[0]);
  if (at == std::string_view::npos || suffix.substr(1) != "i") {
    const bool scientific = suffix[0] == 'e' || suffix[0] == 'E';
    return scientific && read_exponent(suffix.substr(1), number);
  }
  for (std::size_t i = 0; i <= at; ++i) times_1024(number.digits);
  number.binary = true;
  return true;
}

std::optional<Number> read_number(std::string_view text) {
  Number number;
  number.negative = text.starts_with('-');
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  number.digits = take_digits(text);
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const std::string_view fraction = take_digits(text);
    number.digits += fraction;
    number.exponent -= static_cast<int>(fraction.size());
  }
  if (number.digits.empty() || !read_suffix(text, number)) return std::nullopt;
  trim(number);
  return number;
}

// Away from zero to a whole number of 10^-9, as Kubernetes does.
void round_up_to_nano(Number& number) {
  if (number.exponent >= kNano) return;
  const auto lost = static_cast<std::size_t>(kNano - number.exponent);
  std::string kept =
      lost >= number.digits.size() ? "0" : number.digits.substr(0, number.digits.size() - lost);
  auto digit = kept.rbegin();
  for (; digit != kept.rend() && *digit == '9'; ++digit) *digit = '0';
  if (digit == kept.rend()) {
    kept.insert(0, "1");
  } else {
    ++*digit;
  }
  number.digits = std::move(kept);
  number.exponent = kNano;
  trim(number);
}

std::string decimal_text(const Number& number) {
  if (number.digits.empty()) return "0";
  int exponent = std::min(number.exponent, kExa);
  exponent -= ((exponent % 3) + 3) % 3;
  std::string text = number.digits;
  text.append(static_cast<std::size_t>(number.exponent - exponent), '0');
  if (exponent == 0) return text;
  if (number.scientific) return text + "e" + std::to_string(exponent);
  return text + kDecimal[static_cast<std::size_t>((exponent - kNano) / 3)];
}

// None: a fraction, less than 1024, or too large for 64 bits: Kubernetes writes those as decimals.
std::optional<std::string> binary_text(const Number& number) {
  if (number.exponent < 0) return std::nullopt;
  const std::string digits =
      number.digits + std::string(static_cast<std::size_t>(number.exponent), '0');
  std::uint64_t value = 0;
  const auto end = digits.data() + digits.size();
  const auto [read, code] = std::from_chars(digits.data(), end, value);
  if (code != std::errc() || read != end || value < 1024) return std::nullopt;
  std::size_t power = 0;
  for (; value % 1024 == 0 && power < kBinary.size(); value /= 1024) ++power;
  if (power == 0) return std::to_string(value);
  return std::to_string(value) + kBinary[power - 1] + "i";
}

double value_of(const Number& number) {
  double value = 0;
  for (const char digit : number.digits) value = value * 10 + (digit - '0');
  value *= std::pow(10.0, number.exponent);
  return number.negative ? -value : value;
}

}  // namespace

std::optional<CanonicalQuantity> canonical_quantity(std::string_view text) {
  if (text.size() > limits::kQuantityBytesMax) return std::nullopt;
  auto number = read_number(text);
  if (!number) return std::nullopt;
  round_up_to_nano(*number);
  std::optional<std::string> written;
  if (number->binary) written = binary_text(*number);
  if (!written) written = decimal_text(*number);
  if (number->negative && !number->digits.empty()) written->insert(0, "-");
  return CanonicalQuantity{*std::move(written), value_of(*number), number->exponent >= 0};
}

}  // namespace mgpu::kube
