// Values of flags as text, and how the help shows them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "common/base/options.h"

namespace mgpu {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// The error for the only flag of `options`; empty if it was accepted.
std::string refusal(Options& options, const std::string& word) {
  const char* const words[] = {"prog", word.c_str()};
  const ParsedOptions parsed = options.parse(2, words);
  EXPECT_EQ(parsed.exit_code, parsed.run ? 0 : 2);
  return parsed.print;
}

std::string refused(const std::string& sentence) {
  return "prog: " + sentence + "; see --help\n";
}

std::string help_of(Options& options) {
  const char* const words[] = {"prog", "--help"};
  return options.parse(2, words).print;
}

Result<std::int64_t> number(const std::string& text, std::int64_t least, std::int64_t most) {
  Options options("prog", "", "");
  std::int64_t target = least;
  options.add_number("n", "", target, least, most);
  const std::string why = refusal(options, "--n=" + text);
  if (!why.empty()) return error(why);
  return target;
}

Result<Duration> duration(const std::string& text, Duration least, Duration most) {
  Options options("prog", "", "");
  Duration target = least;
  options.add_duration("t", "", target, least, most);
  const std::string why = refusal(options, "--t=" + text);
  if (!why.empty()) return error(why);
  return target;
}

// As the help shows it.
std::string written(Duration target) {
  Options options("prog", "", "");
  options.add_duration("t", "", target, 0ms, 24h);
  const std::string help = help_of(options);
  const std::string before = "(0ms to 24h; default ";
  const std::size_t at = help.find(before) + before.size();
  return help.substr(at, help.find(')', at) - at);
}

TEST(Number, WithinItsRangeIsTaken) {
  EXPECT_EQ(*number("1", 1, 10), 1);
  EXPECT_EQ(*number("10", 1, 10), 10);
  EXPECT_EQ(*number("010", 1, 10), 10);
  EXPECT_EQ(*number("-3", -5, 5), -3);
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(*number("9223372036854775807", 0, kMost), kMost);
}

TEST(Number, ThatIsInvalidOrOutOfRangeIsRefusedByName) {
  for (const std::string text : {"", "0", "11", "-1", "1.0", "1e1", "1k", " 1", "1 ", "+1", "0x1",
                                 "ten", "99999999999999999999"}) {
    const auto read = number(text, 1, 10);
    ASSERT_TRUE(read.has_error()) << text;
    EXPECT_EQ(read.error().message,
              refused("--n must be a whole number from 1 to 10, found \"" + text + "\""));
  }
}

TEST(DurationValue, IsANumberAndAUnit) {
  const std::pair<std::string, Duration> cases[] = {{"500ms", 500ms}, {"2s", 2s}, {"5m", 5min},
                                                    {"1h", 1h},       {"0s", 0s}, {"007s", 7s}};
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(*duration(text, 0ms, 24h), expected) << text;
  }
}

TEST(DurationValue, ThatIsInvalidOrOutOfRangeIsRefusedByName) {
  for (const std::string text :
       {"", "5", "s", "1.5s", "-1s", "2 s", "2S", "2sec", "1m30s", "1us", "99ms", "61s",
        "2562047788016h", "9223372036854775807h", "99999999999999999999s"}) {
    const auto read = duration(text, 100ms, 1min);
    ASSERT_TRUE(read.has_error()) << text;
    EXPECT_EQ(read.error().message,
              refused("--t must be a time from 100ms to 1m, found \"" + text + "\""));
  }
}

TEST(DurationValue, IsWrittenInTheLargestExactUnit) {
  EXPECT_EQ(written(0ms), "0ms");
  EXPECT_EQ(written(1500ms), "1500ms");
  EXPECT_EQ(written(90s), "90s");
  EXPECT_EQ(written(120s), "2m");
  EXPECT_EQ(written(3h), "3h");
  for (const Duration d : {1ms, 999ms, 61'000ms, 3'600'001ms}) {
    EXPECT_EQ(*duration(written(d), 0ms, 24h), d);
  }
}

TEST(Switch, IsTrueOrFalse) {
  bool on = false;
  Options options("prog", "", "");
  options.add_flag("x", "", on);
  EXPECT_EQ(refusal(options, "--x=true"), "");
  EXPECT_TRUE(on);
  EXPECT_EQ(refusal(options, "--x=false"), "");
  EXPECT_FALSE(on);
  EXPECT_EQ(refusal(options, "--x"), "");
  EXPECT_TRUE(on);
  EXPECT_EQ(refusal(options, "--x=yes"), refused("--x must be true or false, found \"yes\""));
}

TEST(Choice, IsOneOfItsList) {
  std::string policy = "binpack";
  Options options("prog", "", "");
  options.add_choice("p", "", policy, {"binpack", "spread", "first"});
  EXPECT_EQ(refusal(options, "--p=spread"), "");
  EXPECT_EQ(policy, "spread");
  EXPECT_EQ(refusal(options, "--p=Spread"),
            refused("--p must be binpack, spread or first, found \"Spread\""));
  EXPECT_EQ(policy, "spread");
}

TEST(EnvironmentName, IsUpperCaseWithUnderscores) {
  bool on = false;
  Options options("prog", "", "MGPU_EXTENDER");
  options.add_flag("bind-concurrency", "", on);
  EXPECT_THAT(help_of(options), HasSubstr("; env MGPU_EXTENDER_BIND_CONCURRENCY)\n"));
}

TEST(FlagHelp, ShowsRangeAndDefault) {
  std::int64_t port = 7;
  bool serve = false;
  Options options("prog", "", "");
  options.add_number("port", "where to listen", port, 1, 9);
  options.add_flag("serve", "stay up", serve);
  EXPECT_THAT(help_of(options), HasSubstr("  --port NUMBER  (1 to 9; default 7)\n"
                                          "      where to listen\n"
                                          "  --serve  (default false)\n"
                                          "      stay up\n"));
}

TEST(FlagHelp, BreaksAtBlanksWithinTheColumns) {
  const auto shown = [](const std::string& help) {
    bool on = false;
    Options options("prog", "", "");
    options.add_flag("x", help, on);
    const std::string text = help_of(options);
    const std::size_t at = text.find("false)\n") + 7;
    return text.substr(at, text.find("  -h,--help\n") - at);
  };
  EXPECT_EQ(shown(""), "      \n");
  EXPECT_EQ(shown("a b"), "      a b\n");
  const std::string word(30, 'w');
  const std::string line = word + " " + word + " " + word;
  EXPECT_EQ(shown(line + " " + word), "      " + line + "\n      " + word + "\n");
  EXPECT_EQ(shown(line + " w"), "      " + line + " w\n");
  EXPECT_EQ(shown(line + " ww"), "      " + line + "\n      ww\n");
  EXPECT_EQ(shown(line + "w w"), "      " + line + "w\n      w\n");
  EXPECT_EQ(shown("ww" + line + " w"), "      ww" + line + "\n      w\n");
  const std::string long_word(200, 'w');
  EXPECT_EQ(shown("a " + long_word + " b"), "      a\n      " + long_word + "\n      b\n");
}

}  // namespace
}  // namespace mgpu
