#include "bench/trace/go_random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace mgpu::trace {
namespace {

using testing::ElementsAre;

// Every expected number was printed by Go 1.

TEST(GoRandom, GivesTheNumbersOfGo) {
  GoRandom one(1);
  EXPECT_EQ(one.next(), 5577006791947779410U);
  EXPECT_EQ(one.next(), 8674665223082153551U);
  EXPECT_EQ(one.next(), 15352856648520921629U);
  GoRandom other(42);
  EXPECT_EQ(other.next(), 12663951391086054483U);
  EXPECT_EQ(other.next(), 9832119173398632219U);
  EXPECT_EQ(other.next(), 5571782338101878760U);
}

TEST(GoRandom, DrawsBelowABoundAsGoDoes) {
  GoRandom draws(42);
  for (int i = 0; i < 3; ++i) draws.next();
  EXPECT_EQ(draws.below(7), 1U);
  EXPECT_EQ(draws.below(1024), 991U);
  EXPECT_EQ(draws.below(2'000'000'000), 822901345U);
  EXPECT_EQ(draws.below(1), 0U);
}

TEST(GoRandom, ShufflesAsGoDoes) {
  GoRandom draws(42);
  std::vector<int> list(10);
  std::iota(list.begin(), list.end(), 0);
  draws.shuffle(list);
  EXPECT_THAT(list, ElementsAre(2, 5, 7, 9, 6, 8, 1, 4, 0, 3));
  std::vector<int> none;
  draws.shuffle(none);
  EXPECT_TRUE(none.empty());
}

TEST(GoRandom, PermutesAsGoDoes) {
  GoRandom draws(42);
  EXPECT_THAT(draws.permutation(8), ElementsAre(7, 5, 3, 4, 2, 1, 6, 0));
  EXPECT_TRUE(draws.permutation(0).empty());
}

TEST(GoRandom, TakesSeedsThatGoFolds) {
  // Go reduces seeds modulo 2^31 - 1, and replaces 0 by a constant.
  EXPECT_EQ(GoRandom(0).next(), 8717895732742165505U);
  EXPECT_EQ(GoRandom(0x7fff'ffff).next(), 8717895732742165505U);
  EXPECT_EQ(GoRandom(0x8000'0000).next(), GoRandom(1).next());
}

TEST(GoRandom, KeepsToItsBoundAndReachesAllOfIt) {
  GoRandom draws(3);
  std::vector<int> seen(5);
  for (int i = 0; i < 5'000; ++i) ++seen.at(draws.below(5));
  // The mean is 1000 and the standard deviation 28.
  for (const int times : seen) EXPECT_NEAR(times, 1000, 170);
}

}  // namespace
}  // namespace mgpu::trace
