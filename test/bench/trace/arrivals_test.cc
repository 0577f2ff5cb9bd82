#include "bench/trace/arrivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace mgpu::trace {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Lt;

using Order = std::vector<std::size_t>;

TracePod pod(std::string name, std::int32_t cards, std::int32_t milli) {
  return {.name = std::move(name), .resources = {}, .cards = cards, .milli = milli, .models = {}};
}

// Half of the pods request a share of one card, one in ten requests 8 cards, one in ten none.
std::vector<TracePod> mixed(std::size_t count) {
  std::vector<TracePod> pods;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = "p" + std::to_string(10'000 + i);
    pods.push_back(i % 10 == 0   ? pod(name, 0, 0)
                   : i % 10 == 1 ? pod(name, 8, 1000)
                   : i % 2 == 0  ? pod(name, 1, 470)
                                 : pod(name, 1, 1000));
  }
  return pods;
}

std::int64_t total(const std::vector<TracePod>& pods, const Order& order) {
  return std::accumulate(
      order.begin(), order.end(), std::int64_t{0},
      [&](std::int64_t sum, std::size_t i) { return sum + pods[i].total_milli(); });
}

std::int64_t total(const std::vector<TracePod>& pods) {
  Order all(pods.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return total(pods, all);
}

TEST(Arrivals, BeginWithEveryPodOnce) {
  const auto pods = mixed(1000);
  const Order order = arrivals_of(pods, total(pods) * 2, 42);
  ASSERT_GT(order.size(), pods.size());
  const std::set<std::size_t> first(order.begin(), order.begin() + 1000);
  EXPECT_EQ(first.size(), 1000U);
}

TEST(Arrivals, EndJustBeforeTheTargetIsPassed) {
  const auto pods = mixed(1000);
  const std::int64_t target = total(pods) * 3 / 2;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const std::int64_t requested = total(pods, arrivals_of(pods, target, seed));
    EXPECT_GT(requested, target - 1000);
    // A pod of 8 cards exceeds the target by the seven cards that are not compared.
    EXPECT_LE(requested, target + 7000);
  }
}

TEST(Arrivals, CompareOnlyOneCardOfAPodWithTheTarget) {
  const std::vector<TracePod> pods{pod("a", 8, 1000)};
  EXPECT_EQ(arrivals_of(pods, 17'000, 1).size(), 3U);
  EXPECT_EQ(arrivals_of(pods, 16'999, 1).size(), 2U);
}

TEST(Arrivals, RemovePodsAboveTheTarget) {
  const auto pods = mixed(1000);
  const std::int64_t target = total(pods) / 2;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Order order = arrivals_of(pods, target, seed);
    EXPECT_LE(total(pods, order), target);
    EXPECT_GT(total(pods, order), target - 8000);
    EXPECT_EQ(std::set<std::size_t>(order.begin(), order.end()).size(), order.size());
  }
}

TEST(Arrivals, AreTheListWhereItMeetsTheTarget) {
  const auto pods = mixed(1000);
  EXPECT_EQ(arrivals_of(pods, total(pods), 7).size(), 1000U);
}

TEST(Arrivals, DependOnNothingButNamesAndSeed) {
  const auto pods = mixed(100);
  auto other = pods;
  std::reverse(other.begin(), other.end());
  const Order order = arrivals_of(pods, total(pods) * 2, 42);
  const Order of_other = arrivals_of(other, total(pods) * 2, 42);
  ASSERT_EQ(order.size(), of_other.size());
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(pods[order[i]].name, other[of_other[i]].name);
  EXPECT_NE(order, arrivals_of(pods, total(pods) * 2, 43));
}

// The expected orders were printed by Go's math/rand, used as the published simulator uses it.
TEST(Arrivals, AreThoseOfThePublishedRuns) {
  const auto pods = mixed(8);
  EXPECT_THAT(arrivals_of(pods, total(pods) * 3 / 2, 42),
              ElementsAre(3, 6, 2, 5, 7, 1, 4, 0, 0, 3, 1));
  EXPECT_THAT(arrivals_of(pods, total(pods) / 2, 42), ElementsAre(6, 5, 4, 0));
}

TEST(Arrivals, PutNoPodFirstMoreOftenThanAnother) {
  const auto pods = mixed(10);
  std::vector<int> first(pods.size());
  for (std::uint64_t seed = 0; seed < 2000; ++seed)
    ++first[arrivals_of(pods, total(pods), seed)[0]];
  // The mean is 200 and the standard deviation 13.
  for (const int times : first) EXPECT_THAT(std::abs(times - 200), Lt(80));
}

TEST(Arrivals, EndEvenIfNoPodRequestsCards) {
  EXPECT_EQ(arrivals_of({pod("a", 0, 0)}, 1000, 1).size(), 2'000'000U);
}

TEST(NodeNumbers, AreAPermutationBySeedAndName) {
  Trace trace{.nodes = {}, .pods = mixed(20)};
  for (int i = 0; i < 50; ++i)
    trace.nodes.push_back(
        {.name = "n" + std::to_string(100 + i), .resources = {}, .cards = 1, .model = {}});
  const Order numbers = node_numbers(trace, 42);
  EXPECT_EQ(std::set<std::size_t>(numbers.begin(), numbers.end()).size(), 50U);
  EXPECT_THAT(numbers, Each(Lt(50U)));
  EXPECT_NE(numbers, node_numbers(trace, 43));
  std::reverse(trace.nodes.begin(), trace.nodes.end());
  Order reversed = node_numbers(trace, 42);
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_EQ(reversed, numbers);
}

TEST(NodeNumbers, NeedNoPods) {
  Trace trace;
  trace.nodes.resize(3);
  EXPECT_EQ(node_numbers(trace, 1).size(), 3U);
}

TEST(Draws, AreWithinTheirBoundAndReachAllOfIt) {
  Draws draws(1, 2);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(draws.below(7));
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_EQ(draws.below(1), 0U);
}

TEST(Draws, HaveFractionsBelowOneWithTheMeanInTheMiddle) {
  Draws draws(1, 2);
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double fraction = draws.fraction();
    ASSERT_GE(fraction, 0);
    ASSERT_LT(fraction, 1);
    sum += fraction;
  }
  EXPECT_NEAR(sum / 10'000, 0.5, 0.02);
}

TEST(Draws, OfOneSeedDifferByPurpose) {
  Draws one(1, 1);
  Draws other(1, 2);
  EXPECT_NE(one.below(1'000'000'000), other.below(1'000'000'000));
}

}  // namespace
}  // namespace mgpu::trace
