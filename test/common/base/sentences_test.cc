#include "common/base/sentences.h"

#include <gtest/gtest.h>

namespace mgpu {
namespace {

TEST(OnOneLine, KeepsQuotesAndBackslashes) {
  EXPECT_EQ(on_one_line("a \"b\" \\ \n\x01\xff"), "a \"b\" \\ \\n\\u0001\xEF\xBF\xBD");
}

TEST(NearestWord, IsTheOneWithTheFewestOtherLetters) {
  const std::vector<std::string> words = {"nodes", "pods", "top", "--selector"};
  EXPECT_EQ(nearest_word("nods", words), "nodes");
  EXPECT_EQ(nearest_word("--selctr", words), "--selector");
  for (const char* other : {"", "x", "to", "explain", "-x"}) {
    EXPECT_EQ(nearest_word(other, words), "") << other;
  }
  EXPECT_EQ(nearest_word(std::string(100'000, 'n'), words), "");
}

}  // namespace
}  // namespace mgpu
