#include "extender/learning/price_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "extender/learning/workload_window.h"
#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {

using test::at_ms;
using test::bound_claim;
using test::facts_of;
using test::request_of;

struct PriceBuilderTest : testing::Test {
  PriceBuilderTest() {
    ledger.apply_node(facts_of("n1: 0[100/1000] 1[100/1000]"));
    ledger.apply_node(facts_of("n2: 0[100/2000]"));
    window.seen(1, "a", request_of("30/300"), {});
  }

  Ledger ledger;
  CurrentPrices current_prices;
  WorkloadWindow window;
  PriceBuilder builder{ledger, current_prices, [this] { return window.counted(); }};
};

TEST_F(PriceBuilderTest, NothingIsPublishedBeforeTheFirst) {
  EXPECT_EQ(current_prices.current(), nullptr);
}

TEST_F(PriceBuilderTest, TheFirstReplacesAQuickOne) {
  builder.build(at_ms(5));
  ASSERT_NE(current_prices.current(), nullptr);
  EXPECT_EQ(current_prices.current()->version, 2U);
  EXPECT_EQ(current_prices.since(), at_ms(5));
}

TEST_F(PriceBuilderTest, TheSnapshotHasTheWorkloadAndTheKindsOfCards) {
  builder.build(at_ms(0));
  const auto price_snapshot = current_prices.current();
  EXPECT_EQ(price_snapshot->workload.classes.size(), 2U);
  EXPECT_EQ(price_snapshot->prices.supply.size(), 2U);
  EXPECT_EQ(price_snapshot->tables.kinds().size(), 3U);
  EXPECT_FALSE(price_snapshot->tables.empty());
  EXPECT_FALSE(price_snapshot->target.empty());
}

TEST_F(PriceBuilderTest, EveryModelOfTheClusterHasAPrior) {
  ledger.replace_nodes(
      {facts_of("n1: 0[100/1000 model=T4]"), facts_of("n2: 0[100/2000 model=A10]")});
  builder.build(at_ms(0));
  const auto& classes = current_prices.current()->workload.classes;
  EXPECT_EQ(std::ranges::count(classes, true, &WeightedClass::assumed), 4);
  EXPECT_EQ(current_prices.current()->prices.supply.size(), classes.size());
}

TEST_F(PriceBuilderTest, ADecisionKeepsItsSnapshot) {
  builder.build(at_ms(0));
  const auto held = current_prices.current();
  window.seen(2, "a", request_of("whole"), {});
  builder.build(at_ms(10));
  EXPECT_EQ(held->version + 1, current_prices.current()->version);
  EXPECT_EQ(held->workload.classes.size(), 2U);
}

TEST_F(PriceBuilderTest, AClusterWithoutCardsHasNoPrices) {
  ledger.replace_nodes({facts_of("n3:")});
  builder.build(at_ms(0));
  EXPECT_TRUE(current_prices.current()->tables.empty());
}

TEST_F(PriceBuilderTest, PricesOfFullNodesAreNotNegative) {
  ledger.apply_pod(bound_claim("a", "n1", "wholex2", "0,1"));
  ledger.apply_pod(bound_claim("b", "n2", "whole", "0"));
  builder.build(at_ms(0));
  for (const float price : current_prices.current()->prices.supply) EXPECT_GE(price, 0.0F);
}

TEST_F(PriceBuilderTest, TheLargestRequestsGiveFinitePrices) {
  const NodeResources most{MilliCpu(MilliCpu::kMax), MiB(MiB::kMax)};
  for (std::uint64_t pod = 10; pod < 300; ++pod) {
    const GpuRequest request = pod % 2 == 0 ? GpuRequest{} : request_of("100/16777216x64");
    window.seen(pod, "b", request, most);
    ledger.apply_non_gpu({PodUid(std::to_string(pod)), NodeName("n1"), most});
  }
  builder.build(at_ms(0));
  const auto price_snapshot = current_prices.current();
  for (const float price : price_snapshot->prices.supply) EXPECT_TRUE(std::isfinite(price));
  for (std::uint64_t pod = 10; pod < 300; ++pod) ledger.remove_pod(PodUid(std::to_string(pod)));
}

int scored = 0;  // the number of nodes that the policy below has scored

Score any_card(const PlacementContext&, const Node&, const Card&, const Share&, const Share&) {
  return 0;
}
Score counted(const PlacementContext&, const Node&, const std::vector<CardHold>&) {
  return ++scored;
}
const Policy kCounted{.name = "counted", .score_card = any_card, .score_node = counted};

TEST_F(PriceBuilderTest, ScoresOfRecentRequestsAreComputedBeforeTheNextIsPublished) {
  const GpuRequest request = request_of("30/300");
  const auto nodes_scored = [&] {
    scored = 0;
    const auto price_snapshot = current_prices.current();
    const PlacementContext context(request, {}, 0, price_snapshot.get());
    ledger.decisions().score(std::vector<std::string_view>{"n1", "n2"}, context,
                             {&kCounted, &kCounted}, at_ms(0));
    return scored;
  };
  builder.build(at_ms(0));
  EXPECT_EQ(nodes_scored(), 2);
  builder.build(at_ms(10));
  EXPECT_EQ(nodes_scored(), 0);
}

TEST_F(PriceBuilderTest, NothingThatTakesLongRunsOnTheThreadThatReadsTheLedger) {
  int computations = 0;
  bool computing = false;
  PriceBuilder apart(
      ledger, current_prices, [&] { return window.counted(); },
      [&](const std::function<void()>& computation) {
        ++computations;
        ledger.reader().releases();  // The lock is not held.
        computing = true;
        computation();
        computing = false;
      });
  int rounds = 0;
  apart.build(at_ms(0), [&] {
    EXPECT_TRUE(computing) << "rounds of the refinement";
    ++rounds;
    return true;
  });
  EXPECT_GT(rounds, 0);
  EXPECT_GE(computations, 3);
}

TEST(IsDue, AfterATenthMorePodsUpToTheMost) {
  struct {
    std::uint64_t now;
    std::uint64_t then;
    bool due;
  } const cases[] = {{0, 0, false},         {1, 0, true},          {2, 1, true},
                     {14, 10, true},        {20, 20, false},       {21, 20, false},
                     {22, 20, true},        {1'099, 1'000, false}, {1'100, 1'000, true},
                     {9'099, 9'000, false}, {9'100, 9'000, true}};
  for (const auto& one : cases)
    EXPECT_EQ(is_due(one.now, one.then, 100), one.due) << one.then << " to " << one.now;
}

}  // namespace
}  // namespace mgpu::extender
