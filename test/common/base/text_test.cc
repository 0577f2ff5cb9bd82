#include "common/base/text.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "common/base/limits.h"

namespace mgpu {
namespace {

bool valid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_sequence_at(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

TEST(LowerCase, ConvertsAsciiOnly) {
  EXPECT_EQ(lower_case("Node-AZ.09[@`{"), "node-az.09[@`{");
  EXPECT_EQ(lower_case("\xC3\x84"), "\xC3\x84");
  EXPECT_EQ(lower_case(""), "");
}

TEST(Utf8, AcceptsOnlyWellFormedSequences) {
  struct Case {
    std::string text;
    std::size_t length;
  };
  const Case cases[] = {
      {"a", 1},
      {"\x7F", 1},
      {"\x80", 0},              // a continuation alone
      {"\xC1\xBF", 0},          // longer than needed
      {"\xC2\x80", 2},          // U+0080
      {"\xDF\xBF", 2},          // U+07FF
      {"\xC3", 0},              // ends early
      {"\xC3(", 0},             // no continuation
      {"\xE0\x9F\xBF", 0},      // longer than needed
      {"\xE0\xA0\x80", 3},      // U+0800
      {"\xED\x9F\xBF", 3},      // U+D7FF
      {"\xED\xA0\x80", 0},      // a surrogate
      {"\xEF\xBF\xBD", 3},      // U+FFFD
      {"\xE2\x82", 0},          // ends early
      {"\xF0\x8F\xBF\xBF", 0},  // longer than needed
      {"\xF0\x90\x80\x80", 4},  // U+10000
      {"\xF4\x8F\xBF\xBF", 4},  // U+10FFFF
      {"\xF4\x90\x80\x80", 0},  // beyond Unicode
      {"\xF5\x80\x80\x80", 0},
      {"\xFF", 0},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(utf8_sequence_at(c.text, 0), c.length) << testing::PrintToString(c.text);
  }
}

TEST(TakeLine, RemovesOneLineWithItsEnd) {
  std::string_view text = "a\n\nb\r\nc";
  EXPECT_EQ(take_line(text), "a");
  EXPECT_EQ(take_line(text), "");
  EXPECT_EQ(take_line(text), "b\r");
  EXPECT_EQ(text, "c");
  EXPECT_EQ(take_line(text), "c");
  EXPECT_EQ(text, "");
  EXPECT_EQ(take_line(text), "");
}

TEST(Trimmed, HasNoBlanksAndEndsOfLinesAtItsEnds) {
  EXPECT_EQ(trimmed(" a b\t\r\n"), "a b");
  EXPECT_EQ(trimmed("a"), "a");
  EXPECT_EQ(trimmed(" \n"), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(CutText, KeepsWhatFits) {
  EXPECT_EQ(cut_text("", 0), "");
  EXPECT_EQ(cut_text("abc", 3), "abc");
  EXPECT_EQ(cut_text("abc", 2), "ab");
  EXPECT_EQ(cut_text("abc", 0), "");
}

TEST(CutText, NeverSplitsACharacter) {
  const std::string text =
      "a\xE2\x82\xAC"
      "b";  // a, euro sign, b
  EXPECT_EQ(cut_text(text, 1), "a");
  EXPECT_EQ(cut_text(text, 2), "a");
  EXPECT_EQ(cut_text(text, 3), "a");
  EXPECT_EQ(cut_text(text, 4), "a\xE2\x82\xAC");
}

TEST(CutText, CutsInvalidUtf8) {
  const std::string text(10, '\x80');
  EXPECT_LE(cut_text(text, 5).size(), 5U);
  EXPECT_GE(cut_text(text, 5).size(), 2U);
}

TEST(JsonEscaped, EscapesWhatJsonMust) {
  EXPECT_EQ(json_escaped("plain"), "plain");
  EXPECT_EQ(json_escaped("a\"b\\c"), "a\\\"b\\\\c");
  EXPECT_EQ(json_escaped("\n\r\t"), "\\n\\r\\t");
  EXPECT_EQ(json_escaped(std::string("\0\x1F\x7F", 3)), "\\u0000\\u001f\\u007f");
  EXPECT_EQ(json_escaped("\xE2\x82\xAC"), "\xE2\x82\xAC");
}

TEST(JsonEscaped, ReplacesInvalidUtf8) {
  EXPECT_EQ(json_escaped("a\xFF"
                         "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(json_escaped("\xE2\x82"), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(JsonEscaped, AnyBytesBecomeOneLineOfValidText) {
  std::mt19937 engine(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text(engine() % 40, ' ');
    for (char& c : text) c = static_cast<char>(engine() & 0xFF);
    const std::string escaped = json_escaped(text);
    EXPECT_TRUE(valid_utf8(escaped));
    EXPECT_EQ(escaped.find('\n'), std::string::npos);
  }
}

TEST(InQuotes, MarksCutValues) {
  EXPECT_EQ(in_quotes("0.5"), "\"0.5\"");
  EXPECT_EQ(in_quotes(std::string(kQuotedValueMax, 'x')).back(), '"');
  EXPECT_EQ(in_quotes(std::string(100'000, 'x')),
            '"' + std::string(kQuotedValueMax, 'x') + "...\"");
}

TEST(DurationText, IsInTheLargestUnitThatIsExact) {
  using std::chrono::milliseconds;
  EXPECT_EQ(duration_text(milliseconds(0)), "0ms");
  EXPECT_EQ(duration_text(milliseconds(1'500)), "1500ms");
  EXPECT_EQ(duration_text(milliseconds(10'000)), "10s");
  EXPECT_EQ(duration_text(milliseconds(90'000)), "90s");
  EXPECT_EQ(duration_text(milliseconds(90 * 60'000)), "90m");
  EXPECT_EQ(duration_text(milliseconds(120 * 60'000)), "2h");
}

}  // namespace
}  // namespace mgpu
