#include "bench/trace/seeds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mgpu::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ParseSeeds, TakesNumbersAndRangesInTheirOrder) {
  EXPECT_THAT(*parse_seeds("7"), ElementsAre(7));
  EXPECT_THAT(*parse_seeds("42-45"), ElementsAre(42, 43, 44, 45));
  EXPECT_THAT(*parse_seeds("9,3-4,3"), ElementsAre(9, 3, 4, 3));
  EXPECT_THAT(*parse_seeds("1000000000"), ElementsAre(1'000'000'000));
}

TEST(ParseSeeds, TakesAThousandAtMost) {
  EXPECT_EQ(parse_seeds("1-1000")->size(), 1000U);
  EXPECT_THAT(parse_seeds("1-1001").error().message, HasSubstr("at most 1000"));
  EXPECT_THAT(parse_seeds("1-999,1-2").error().message, HasSubstr("at most 1000"));
  EXPECT_THAT(parse_seeds("0-1000000000").error().message, HasSubstr("at most 1000"));
}

class SeedsRefused : public testing::TestWithParam<std::string_view> {};

TEST_P(SeedsRefused, SayWhatWasExpected) {
  const auto seeds = parse_seeds(GetParam());
  ASSERT_FALSE(seeds);
  EXPECT_THAT(seeds.error().message, HasSubstr("such as 42-51 or 1,7"));
}

INSTANTIATE_TEST_SUITE_P(Texts, SeedsRefused,
                         testing::Values("", "a", "-", "1-", "-1", "3-1", "1,,2", "1,", "1 2",
                                         "1-2-3", "1.5", "1000000001",
                                         "99999999999999999999999999"));

}  // namespace
}  // namespace mgpu::trace
