// Feeds a Kubernetes quantity to its readers.
//
// Properties: a short quantity has the value that a second, simple reader computes; the readers
// agree with each other; the canonical form is its own canonical form and has the same value.
#include "common/contract/quantity.h"

#include <cctype>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

// Enough for 15 digits and any suffix.
__extension__ using Wide = __int128;

constexpr std::size_t kSimpleDigitsMax = 15;
constexpr std::int64_t kWholeMax = std::int64_t{1} << 62;

// numerator / denominator
struct Fraction {
  Wide numerator = 0;
  Wide denominator = 1;
};

std::optional<Fraction> factor_of(std::string_view suffix) {
  constexpr std::string_view kBinary = "KMGTPE";
  constexpr std::pair<std::string_view, int> kDecimal[] = {
      {"n", -9}, {"u", -6}, {"m", -3}, {"", 0},   {"k", 3},
      {"M", 6},  {"G", 9},  {"T", 12}, {"P", 15}, {"E", 18}};
  Fraction factor{1, 1};
  if (suffix.size() == 2 && suffix[1] == 'i' && kBinary.find(suffix[0]) != kBinary.npos) {
    factor.numerator <<= 10 * (kBinary.find(suffix[0]) + 1);
    return factor;
  }
  for (const auto& [name, exponent] : kDecimal) {
    if (name != suffix) continue;
    for (int i = 0; i < exponent; ++i) factor.numerator *= 10;
    for (int i = 0; i > exponent; --i) factor.denominator *= 10;
    return factor;
  }
  return std::nullopt;
}

// A quantity without sign and exponent, of at most kSimpleDigitsMax digits; nothing for all others.
std::optional<Fraction> simple_value(std::string_view text) {
  Fraction value;
  std::size_t digits = 0;
  bool fraction = false;
  while (!text.empty() && (text[0] == '.' || std::isdigit(static_cast<unsigned char>(text[0])))) {
    if (text[0] == '.' && std::exchange(fraction, true)) return std::nullopt;
    if (text[0] != '.') {
      value.numerator = value.numerator * 10 + (text[0] - '0');
      if (fraction) value.denominator *= 10;
      ++digits;
    }
    if (digits > kSimpleDigitsMax) return std::nullopt;
    text.remove_prefix(1);
  }
  const auto factor = factor_of(text);
  if (digits == 0 || !factor) return std::nullopt;
  return Fraction{value.numerator * factor->numerator, value.denominator * factor->denominator};
}

void expect_simple_value(std::string_view text, const Result<std::int64_t>& whole) {
  const auto value = simple_value(text);
  if (!value) return;
  const bool is_whole = value->numerator % value->denominator == 0;
  const Wide amount = value->numerator / value->denominator;
  if (!is_whole || amount > kWholeMax) return expect(!whole, "not a whole number in range");
  expect(whole && *whole == static_cast<std::int64_t>(amount), "a quantity has its value");
}

void expect_rounding(std::string_view text, const Result<std::int64_t>& whole) {
  const auto rounded = parse_scaled_quantity("amount", text, 0);
  const auto thousandths = parse_scaled_quantity("amount", text, 3);
  if (whole) expect(rounded && *rounded == *whole, "a whole number needs no rounding");
  if (!rounded) return expect_sentence(rounded.error().message);
  if (!thousandths) return;
  expect(*thousandths / 1000 + (*thousandths % 1000 == 0 ? 0 : 1) == *rounded,
         "amounts are rounded up");
}

void expect_canonical(std::string_view text, const Result<std::int64_t>& whole) {
  const auto canonical = canonical_quantity(text);
  if (!canonical) return expect(!whole, "a whole number has a canonical form");
  const auto again = canonical_quantity(canonical->text);
  expect(again && again->whole == canonical->whole, "the canonical form is a quantity");
  // A binary quantity without a suffix in its canonical form is then a decimal one.
  const auto third = canonical_quantity(again->text);
  expect(third && third->text == again->text, "the canonical form is canonical");
  const double difference = std::abs(again->value - canonical->value);
  expect(again->value == canonical->value || difference <= 1e-12 * std::abs(canonical->value),
         "the canonical form has the same value");
  if (!whole) return;
  const auto value = parse_whole_quantity("amount", canonical->text);
  expect(value && *value == *whole, "the canonical form has the same value");
}

}  // namespace

MGPU_FUZZER(quantity) {
  const auto whole = parse_whole_quantity("limits cpu of app", input);
  if (!whole) {
    expect_sentence(whole.error().message);
    expect(whole.error().message.starts_with("limits cpu of app must be "),
           "an error names the quantity");
  }
  expect_simple_value(input, whole);
  expect_rounding(input, whole);
  expect_canonical(input, whole);
}

}  // namespace mgpu::fuzz
