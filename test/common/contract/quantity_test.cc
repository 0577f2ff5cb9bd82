#include "common/contract/quantity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

namespace mgpu {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kTwoTo62 = std::int64_t{1} << 62;

struct Whole {
  std::string text;
  std::int64_t value;
};

class WholeQuantity : public testing::TestWithParam<Whole> {};

TEST_P(WholeQuantity, IsReadAsKubernetesReadsIt) {
  const auto value = parse_whole_quantity("cpu", GetParam().text);
  ASSERT_TRUE(value.has_value()) << value.error().message;
  EXPECT_EQ(*value, GetParam().value);
}

INSTANTIATE_TEST_SUITE_P(
    , WholeQuantity,
    testing::Values(
        Whole{"0", 0}, Whole{"1", 1}, Whole{"50", 50}, Whole{"+7", 7}, Whole{"007", 7},
        Whole{"-0", 0}, Whole{"0.000", 0}, Whole{"0m", 0}, Whole{"0Ei", 0}, Whole{"0e9999999", 0},
        // the canonical forms that the API server writes
        Whole{"8k", 8000}, Whole{"12k", 12'000}, Whole{"16k", 16'000}, Whole{"130040", 130'040},
        Whole{"1M", 1'000'000}, Whole{"1G", 1'000'000'000}, Whole{"1T", 1'000'000'000'000},
        Whole{"1P", 1'000'000'000'000'000}, Whole{"1E", 1'000'000'000'000'000'000},
        Whole{"1Ki", 1024}, Whole{"3Mi", 3 << 20}, Whole{"1Gi", 1 << 30},
        Whole{"1Ti", std::int64_t{1} << 40}, Whole{"1Pi", std::int64_t{1} << 50},
        Whole{"1Ei", std::int64_t{1} << 60}, Whole{"4Ei", kTwoTo62},
        // exponents
        Whole{"1e3", 1000}, Whole{"1E3", 1000}, Whole{"1e+3", 1000}, Whole{"5000e-3", 5},
        Whole{"1e0", 1}, Whole{"1e00000000000000000002", 100}, Whole{"0.5e1", 5},
        // fractions whose value is a whole number
        Whole{"2000m", 2}, Whole{"3000000u", 3}, Whole{"4000000000n", 4}, Whole{"0.5k", 500},
        Whole{"1.0", 1}, Whole{"1.", 1}, Whole{".5k", 500}, Whole{"0.5Ki", 512},
        Whole{"1.5Gi", 1'610'612'736}, Whole{"0.0009765625Ki", 1}, Whole{"1.1e1", 11},
        Whole{"4611686018427387904", kTwoTo62}, Whole{"4611686018427387.904k", kTwoTo62}));

struct Refused {
  std::string text;
  std::string why;
};

class RefusedQuantity : public testing::TestWithParam<Refused> {};

TEST_P(RefusedQuantity, SaysWhatWasExpectedAndFound) {
  const auto value = parse_whole_quantity("limits mgpu-core of container app", GetParam().text);
  ASSERT_TRUE(value.has_error()) << *value;
  const std::string& message = value.error().message;
  EXPECT_THAT(message, HasSubstr("limits mgpu-core of container app must be " + GetParam().why));
  EXPECT_THAT(message, HasSubstr("found \"" + GetParam().text.substr(0, 100)));
}

constexpr const char* kNotAQuantity = "a whole number such as";

INSTANTIATE_TEST_SUITE_P(
    , RefusedQuantity,
    testing::Values(
        Refused{"", kNotAQuantity}, Refused{"-", kNotAQuantity}, Refused{"+", kNotAQuantity},
        Refused{".", kNotAQuantity}, Refused{"k", kNotAQuantity}, Refused{"e3", kNotAQuantity},
        Refused{"fifty", kNotAQuantity}, Refused{"1e", kNotAQuantity},
        Refused{"1E+", kNotAQuantity}, Refused{"1K", kNotAQuantity}, Refused{"1ki", kNotAQuantity},
        Refused{"1KI", kNotAQuantity}, Refused{"1g", kNotAQuantity}, Refused{"1i", kNotAQuantity},
        Refused{"1kk", kNotAQuantity}, Refused{"1e3k", kNotAQuantity},
        Refused{"1k3", kNotAQuantity}, Refused{"1.1.1", kNotAQuantity},
        Refused{"1,5", kNotAQuantity}, Refused{"0x10", kNotAQuantity}, Refused{" 1", kNotAQuantity},
        Refused{"1 ", kNotAQuantity}, Refused{"1 k", kNotAQuantity}, Refused{"--1", kNotAQuantity},
        Refused{"1e1.5", kNotAQuantity}, Refused{"1e--3", kNotAQuantity},
        Refused{"NaN", kNotAQuantity}, Refused{"Inf", kNotAQuantity}, Refused{"-1", "zero or more"},
        Refused{"-8k", "zero or more"}, Refused{"-0.5", "zero or more"},
        Refused{"0.5", "a whole number"}, Refused{"500m", "a whole number"},
        Refused{"1n", "a whole number"}, Refused{"0.0001k", "a whole number"},
        Refused{"1.5", "a whole number"}, Refused{"1e-1", "a whole number"},
        Refused{"0.3Ki", "a whole number"}, Refused{"1e-999999999999", "a whole number"},
        Refused{"4611686018427387905", "at most 2^62"}, Refused{"5E", "at most 2^62"},
        Refused{"5Ei", "at most 2^62"}, Refused{"1e19", "at most 2^62"},
        Refused{"18446744073709551617", "at most 2^62"}, Refused{"1e999999999999", "at most 2^62"},
        Refused{"99999999999999999999999999999999999999", "at most 2^62"},
        Refused{std::string(257, '1'), "a quantity of at most 256 characters"},
        Refused{std::string(10'000'000, '0'), "a quantity of at most 256 characters"}));

TEST(Quantity, ControlCharactersAreEscapedInTheSentence) {
  const auto value = parse_whole_quantity("x", "1\n\"2\"");
  ASSERT_TRUE(value.has_error());
  EXPECT_THAT(value.error().message, HasSubstr(R"(found "1\n\"2\"")"));
}

// A whole number has the same value in all of its forms.
TEST(Quantity, EveryFormOfANumberMeansTheSame) {
  std::mt19937_64 engine(3);
  for (int round = 0; round < 5000; ++round) {
    const auto n = static_cast<std::int64_t>(engine() % 1'000'000'000'000);
    const std::string digits = std::to_string(n);
    const std::string forms[] = {digits,        digits + "000m", digits + "000000000n",
                                 digits + ".0", digits + "e0",   digits + "00e-2",
                                 "00" + digits, "+" + digits,    digits + "000000e-06"};
    for (const std::string& form : forms) {
      const auto value = parse_whole_quantity("x", form);
      ASSERT_TRUE(value.has_value()) << value.error().message;
      ASSERT_EQ(*value, n) << form;
    }
    ASSERT_EQ(*parse_whole_quantity("x", digits + "Ki"), n * 1024);
    ASSERT_EQ(*parse_whole_quantity("x", digits + "k"), n * 1000);
  }
}

TEST(ScaledQuantity, IsTheValueTimesThePowerRoundedUp) {
  struct {
    const char* text;
    int power;
    std::int64_t value;
  } const cases[] = {
      {"2", 3, 2'000},
      {"500m", 3, 500},
      {"0.5", 3, 500},
      {"1u", 3, 1},
      {"100u", 3, 1},
      {"1001u", 3, 2},
      {"1n", 0, 1},
      {"1Gi", 0, 1'073'741'824},
      {"1.5k", 0, 1'500},
      {"0", 3, 0},
      {"0.000", 3, 0},
      {"1e-9", 9, 1},
      {"128974848m", 0, 128'975},
      {"64", 0, 64},
      {"0.1", 0, 1},
      {"1e-1000", 3, 1},
  };
  for (const auto& one : cases) {
    const auto value = parse_scaled_quantity("x", one.text, one.power);
    ASSERT_TRUE(value.has_value()) << one.text << ": " << value.error().message;
    EXPECT_EQ(*value, one.value) << one.text << " times ten to the " << one.power;
  }
}

TEST(ScaledQuantity, RefusesInvalidAndLargeOnes) {
  for (const char* text : {"", "many", "-1", "-1n", "5E", "1e30"})
    EXPECT_FALSE(parse_scaled_quantity("x", text, 3).has_value()) << text;
}

TEST(Quantity, AnyTextIsReadOrRefused) {
  constexpr std::string_view kAlphabet = "0123456789.+-eEinumkKMGTP x";
  std::mt19937_64 engine(4);
  for (int round = 0; round < 50'000; ++round) {
    std::string text(engine() % 12, ' ');
    for (char& c : text) c = kAlphabet[engine() % kAlphabet.size()];
    const auto value = parse_whole_quantity("x", text);
    if (value.has_value()) {
      ASSERT_GE(*value, 0) << text;
      ASSERT_LE(*value, kTwoTo62) << text;
    }
  }
}

}  // namespace
}  // namespace mgpu
