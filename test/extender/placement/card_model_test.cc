#include "extender/placement/card_model.h"

#include <gtest/gtest.h>

namespace mgpu::extender {
namespace {

TEST(ModelNames, CompareWithoutRegardToCase) {
  struct {
    const char* a;
    const char* b;
    bool same;
    bool less;
  } const cases[] = {
      {"A100", "a100", true, false},
      {"", "", true, false},
      {"A10", "a100", false, true},
      {"b", "A", false, false},
      {"a", "B", false, true},
      // Only letters of ASCII have a case.
      {"[", "{", false, true},
      {"\xc3\x84", "\xc3\xa4", false, true},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(same_model(test.a, test.b), test.same) << test.a << " " << test.b;
    EXPECT_EQ(ModelLess{}(test.a, test.b), test.less) << test.a << " " << test.b;
    EXPECT_FALSE(ModelLess{}(test.a, test.b) && ModelLess{}(test.b, test.a));
  }
}

TEST(AcceptsModel, ByBothLists) {
  EXPECT_TRUE(accepts_model({}, {}, "T4"));
  EXPECT_TRUE(accepts_model({}, {}, ""));
  EXPECT_TRUE(accepts_model({"P100", "t4"}, {}, "T4"));
  EXPECT_FALSE(accepts_model({"P100"}, {}, "T4"));
  EXPECT_FALSE(accepts_model({}, {"t4"}, "T4"));
  EXPECT_TRUE(accepts_model({}, {"T40"}, "T4"));
  EXPECT_FALSE(accepts_model({"T4"}, {"T4"}, "T4"));
}

}  // namespace
}  // namespace mgpu::extender
