#include "common/option_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "common/option_help.h"

namespace mgpu {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(Number, WithinItsRangeIsTaken) {
  EXPECT_EQ(*parse_number("--n", "1", 1, 10), 1);
  EXPECT_EQ(*parse_number("--n", "10", 1, 10), 10);
  EXPECT_EQ(*parse_number("--n", "-3", -5, 5), -3);
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(*parse_number("--n", "9223372036854775807", 0, kMost), kMost);
}

TEST(Number, OutsideItsRangeOrNoneIsRefusedByName) {
  for (const std::string text : {"", "0", "11", "-1", "1.0", "1e1", "1k", " 1", "1 ", "+1", "0x1",
                                 "ten", "99999999999999999999"}) {
    const auto number = parse_number("--n", text, 1, 10);
    ASSERT_TRUE(number.has_error()) << text;
    EXPECT_EQ(number.error().message,
              "--n must be a whole number from 1 to 10, found \"" + text + "\"");
  }
}

TEST(DurationValue, IsANumberAndAUnit) {
  const std::pair<std::string, Duration> cases[] = {{"500ms", 500ms}, {"2s", 2s}, {"5m", 5min},
                                                    {"1h", 1h},       {"0s", 0s}, {"007s", 7s}};
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(*parse_duration("--t", text, 0ms, 24h), expected) << text;
  }
}

TEST(DurationValue, OutsideItsRangeOrNoneIsRefusedByName) {
  for (const std::string text :
       {"", "5", "s", "1.5s", "-1s", "2 s", "2S", "2sec", "1m30s", "1us", "99ms", "61s",
        "2562047788016h", "9223372036854775807h", "99999999999999999999s"}) {
    const auto duration = parse_duration("--t", text, 100ms, 1min);
    ASSERT_TRUE(duration.has_error()) << text;
    EXPECT_EQ(
        duration.error().message,
        "--t must be a time from 100ms to 1m such as 500ms, 2s or 5m, found \"" + text + "\"");
  }
}

TEST(DurationValue, IsWrittenInTheLargestExactUnit) {
  EXPECT_EQ(format_duration(0ms), "0ms");
  EXPECT_EQ(format_duration(1500ms), "1500ms");
  EXPECT_EQ(format_duration(90s), "90s");
  EXPECT_EQ(format_duration(120s), "2m");
  EXPECT_EQ(format_duration(3h), "3h");
  for (const Duration d : {1ms, 999ms, 61'000ms, 3'600'001ms}) {
    EXPECT_EQ(*parse_duration("--t", format_duration(d), 0ms, 24h), d);
  }
}

TEST(Switch, IsTrueOrFalse) {
  EXPECT_TRUE(*parse_switch("--x", "true"));
  EXPECT_FALSE(*parse_switch("--x", "false"));
  EXPECT_EQ(parse_switch("--x", "yes").error().message, "--x must be true or false, found \"yes\"");
}

TEST(Choice, IsOneOfItsList) {
  EXPECT_EQ(*parse_choice("--p", "spread", {"binpack", "spread"}), "spread");
  EXPECT_EQ(parse_choice("--p", "Spread", {"binpack", "spread", "first"}).error().message,
            "--p must be binpack, spread or first, found \"Spread\"");
}

TEST(EnvironmentName, IsUpperCaseWithUnderscores) {
  EXPECT_EQ(environment_name("MGPU_EXTENDER", "bind-concurrency"),
            "MGPU_EXTENDER_BIND_CONCURRENCY");
}

TEST(FlagHelp, ShowsRangeDefaultAndEnvironment) {
  EXPECT_EQ(flag_help({"port", "NUMBER", "where to listen", "1 to 9", "7", "X_PORT"}),
            "  --port NUMBER  (1 to 9; default 7; env X_PORT)\n      where to listen\n");
  EXPECT_EQ(flag_help({"serve", "", "stay up", "", "false", ""}),
            "  --serve  (default false)\n      stay up\n");
}

TEST(WrapText, BreaksAtBlanksWithinTheColumns) {
  EXPECT_EQ(wrap_text("", "  "), "  \n");
  EXPECT_EQ(wrap_text("a b", "  "), "  a b\n");
  const std::string word(30, 'w');
  EXPECT_EQ(wrap_text(word + " " + word + " " + word + " " + word, "    "),
            "    " + word + " " + word + " " + word + "\n    " + word + "\n");
  const std::string long_word(200, 'w');
  EXPECT_EQ(wrap_text("a " + long_word + " b", ""), "a\n" + long_word + "\nb\n");
}

}  // namespace
}  // namespace mgpu
