#include "extender/kubectl/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mgpu::test {
namespace {

using kubectl::sanitize_for_terminal;

TEST(Harmless, KeepsOrdinaryText) {
  for (const char* text : {"", "gpu-1", "<b>&amp;\"'\\", "\u00e9\u4e2d\u6587\U0001f600"}) {
    EXPECT_EQ(sanitize_for_terminal(text, 100), text);
  }
}

TEST(Harmless, ShowsWhatWouldChangeTheDisplay) {
  EXPECT_EQ(sanitize_for_terminal("a\nb\tc\x1b[2J\x7f", 100), "a\\u{a}b\\u{9}c\\u{1b}[2J\\u{7f}");
  EXPECT_EQ(sanitize_for_terminal(std::string("a\0b", 3), 100), "a\\u{0}b");
  EXPECT_EQ(sanitize_for_terminal("\u009b31m", 100), "\\u{9b}31m");
  EXPECT_EQ(sanitize_for_terminal("\u200f\u202e\u2066\u2069\u061c", 100),
            "\\u{200f}\\u{202e}\\u{2066}\\u{2069}\\u{61c}");
  EXPECT_EQ(sanitize_for_terminal("\u200b\u2060\ufeff\u00ad\u2028", 100),
            "\\u{200b}\\u{2060}\\u{feff}\\u{ad}\\u{2028}");
  EXPECT_EQ(sanitize_for_terminal("\U000e0041", 100), "\\u{e0041}");
  EXPECT_EQ(sanitize_for_terminal("a\xff\xc0z", 100), "a\\x{ff}\\x{c0}z");
}

TEST(Harmless, CutsBetweenCharacters) {
  EXPECT_EQ(sanitize_for_terminal("abc", 3), "abc");
  EXPECT_EQ(sanitize_for_terminal("abcd", 3), "abc...");
  EXPECT_EQ(sanitize_for_terminal("ab\u00e9", 3), "ab...");
}

TEST(Colored, OnlyWhereThereAreColors) {
  EXPECT_EQ(kubectl::colored("x", kubectl::Color::kRed, true), "\x1b[31mx\x1b[0m");
  EXPECT_EQ(kubectl::colored("x", kubectl::Color::kRed, false), "x");
  EXPECT_EQ(kubectl::colored("x", kubectl::Color::kNone, true), "x");
}

}  // namespace
}  // namespace mgpu::test
