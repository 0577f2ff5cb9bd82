#include "bench/trace/arrival_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "test/bench/trace/small_trace.h"

namespace mgpu::trace {
namespace {

using testing::ElementsAre;

// Two cards, half a card, one card, no card, 30 % of a card.
std::vector<TracePod> five_pods() {
  return test::trace_of("n0 1/1 1xT4", "a 1/1 2x1000;b 1/1 1x500;c 1/1 1x1000;d 1/1;e 1/1 1x300")
      .pods;
}

std::vector<std::size_t> ordered(ArrivalOrder order) {
  return in_order({0, 1, 2, 3, 4, 0}, five_pods(), order, 1);
}

TEST(ArrivalOrder, IsAsItsNameSays) {
  EXPECT_THAT(ordered(ArrivalOrder::kDrawn), ElementsAre(0, 1, 2, 3, 4, 0));
  EXPECT_THAT(ordered(ArrivalOrder::kAscending), ElementsAre(3, 4, 1, 2, 0, 0));
  EXPECT_THAT(ordered(ArrivalOrder::kDescending), ElementsAre(0, 0, 2, 1, 4, 3));
  EXPECT_THAT(ordered(ArrivalOrder::kSharesFirst), ElementsAre(1, 3, 4, 0, 2, 0));
  EXPECT_THAT(ordered(ArrivalOrder::kWholeFirst), ElementsAre(0, 2, 0, 1, 3, 4));
}

TEST(ArrivalOrder, BlocksAlternateUntilBothKindsAreUsedUp) {
  std::vector<std::size_t> arrivals(3 * kBlockPods, 0);
  arrivals.insert(arrivals.end(), kBlockPods + 1, 1);
  const auto blocks = in_order(arrivals, five_pods(), ArrivalOrder::kAlternating, 1);
  ASSERT_EQ(blocks.size(), arrivals.size());
  EXPECT_EQ(blocks[kBlockPods - 1], 0U);
  EXPECT_EQ(blocks[kBlockPods], 1U);
  EXPECT_EQ(blocks[2 * kBlockPods], 0U);
  EXPECT_EQ(blocks[3 * kBlockPods], 1U) << "the last one";
  EXPECT_EQ(blocks[3 * kBlockPods + 1], 0U);
}

TEST(ArrivalOrder, RandomBlocksAreAPermutationThatDependsOnTheSeed) {
  std::vector<std::size_t> arrivals(1003);
  std::iota(arrivals.begin(), arrivals.end(), std::size_t{0});
  const std::vector<TracePod> pods(1003);
  const auto blocks = [&](std::uint64_t seed) {
    return in_order(arrivals, pods, ArrivalOrder::kRandomBlocks, seed);
  };
  EXPECT_EQ(blocks(1), blocks(1));
  EXPECT_NE(blocks(1), blocks(2));
  auto sorted = blocks(1);
  std::ranges::sort(sorted);
  EXPECT_EQ(sorted, arrivals);
}

TEST(ArrivalOrder, IsFoundByName) {
  for (std::size_t i = 0; i < kArrivalOrders.size(); ++i)
    EXPECT_EQ(find_arrival_order(kArrivalOrders[i]), static_cast<ArrivalOrder>(i));
  EXPECT_FALSE(find_arrival_order("sorted"));
}

}  // namespace
}  // namespace mgpu::trace
