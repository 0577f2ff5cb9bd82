// In addition to kube/conformance/pods_test.cc, which runs against both API servers.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "common/contract/quantity.h"

namespace mgpu {
namespace {

TEST(CanonicalQuantity, WritesTheCanonicalForm) {
  const std::pair<const char*, const char*> cases[] = {
      {"8000", "8k"},        {"8500", "8500"},      {"007", "7"},
      {"-1500", "-1500"},    {"-0", "0"},           {"0.001k", "1"},
      {"1.5k", "1500"},      {"1n", "1n"},          {"0.1n", "1n"},
      {"999999999.9n", "1"}, {"1000u", "1m"},       {"1000E", "1000E"},
      {"1Ei", "1Ei"},        {"1024Pi", "1Ei"},     {"0.0009765625Ki", "1"},
      {"1e-3", "1e-3"},      {"1E3", "1e3"},        {"1500e3", "1500e3"},
      {"1e0", "1"},          {"0e400", "0"},        {"10e100", "100e99"},
      {"5.2e-400", "1e-9"},  {"1e+0000003", "1e3"},
  };
  for (const auto& [written, kept] : cases) {
    const auto quantity = canonical_quantity(written);
    ASSERT_TRUE(quantity) << written;
    EXPECT_EQ(quantity->text, kept) << written;
  }
}

TEST(CanonicalQuantity, DistinguishesWholeNumbersFromFractions) {
  for (const char* const text : {"1", "8k", "2000m", "0.5k", "1Ki", "0", "1.0"}) {
    EXPECT_TRUE(canonical_quantity(text)->whole) << text;
  }
  for (const char* const text : {"0.5", "1m", "1500m", "1e-3", "0.1n"}) {
    EXPECT_FALSE(canonical_quantity(text)->whole) << text;
  }
}

// A tenant may write any exponent, and the API server accepts it.
TEST(CanonicalQuantity, HasAValueForEachExponent) {
  double last = 0;
  for (int exponent = 0; exponent < 745; ++exponent) {
    for (const char* const digits : {"1", "8.98846567431158"}) {
      const std::string text = digits + ("e" + std::to_string(exponent));
      const auto quantity = canonical_quantity(text);
      ASSERT_TRUE(quantity) << text;
      EXPECT_GE(quantity->value, last) << text;
      last = quantity->value;
    }
  }
  EXPECT_EQ(last, std::numeric_limits<double>::infinity());
  EXPECT_DOUBLE_EQ(canonical_quantity("1e307")->value, 1e307);
  EXPECT_DOUBLE_EQ(canonical_quantity("1.7e308")->value, 1.7e308);
  EXPECT_DOUBLE_EQ(canonical_quantity("0.123456789012345678")->value, 0.123456790);
  EXPECT_EQ(canonical_quantity("-1e500")->value, -std::numeric_limits<double>::infinity());
}

TEST(CanonicalQuantity, RefusesInvalidText) {
  const std::string long_number(300, '1');
  for (const std::string& text :
       {std::string(), std::string("-"), std::string("."), std::string("k"), std::string("1 "),
        std::string(" 1"), std::string("1K"), std::string("1ki"), std::string("1KiB"),
        std::string("1e"), std::string("1e+"), std::string("1ee3"), std::string("0x1"),
        std::string("1,000"), std::string("1e99999999999"), std::string("1e+-3"),
        std::string("--1"), long_number}) {
    EXPECT_FALSE(canonical_quantity(text)) << text;
  }
}

// The canonical form of an amount has the same value.
TEST(CanonicalQuantity, CanonicalFormKeepsTheValue) {
  for (const char* const suffix : {"", "m", "k", "M", "Ki", "Mi", "e3", "E2"}) {
    for (int number = 0; number < 5000; number += 7) {
      const std::string text = std::to_string(number * 10) + suffix;
      const auto kept = canonical_quantity(text);
      ASSERT_TRUE(kept) << text;
      const auto before = parse_whole_quantity("x", text);
      const auto after = parse_whole_quantity("x", kept->text);
      ASSERT_EQ(before.has_value(), after.has_value()) << text << " " << kept->text;
      EXPECT_EQ((before ? *before : 0), (after ? *after : 0)) << text << " " << kept->text;
      EXPECT_EQ(kept->whole, before.has_value()) << text;
      EXPECT_EQ(canonical_quantity(kept->text)->text, kept->text) << text;
    }
  }
}

}  // namespace
}  // namespace mgpu
