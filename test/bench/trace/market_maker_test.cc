#include "bench/trace/market_maker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "bench/trace/cycle.h"
#include "test/bench/trace/small_trace.h"

namespace mgpu::trace {
namespace {

using test::trace_of;

const char* const kNode = "n0 64000/262144 8xT4";

extender::Workload workload_of(const char* pods, MemoryRule rule = MemoryRule::kNone) {
  const Trace trace = trace_of(kNode, pods);
  return target_workload(Objects(trace, rule));
}

TEST(TargetWorkload, CountsPodsThatAskForTheSame) {
  const auto workload =
      workload_of("a 4000/100 1x1000;b 4000/100 1x500;c 4000/100 1x1000;d 4000/100 1x1000");
  ASSERT_EQ(workload.classes.size(), 2U);
  EXPECT_DOUBLE_EQ(workload.classes[0].probability, 0.75);
  EXPECT_TRUE(workload.classes[0].what.whole);
  EXPECT_EQ(workload.classes[0].what.host.cpu, extender::MilliCpu(4000));
  EXPECT_DOUBLE_EQ(workload.classes[1].probability, 0.25);
  EXPECT_EQ(workload.classes[1].what.per_card.core, Percent(50));
}

TEST(TargetWorkload, CountsPodsWithoutCards) {
  const auto workload = workload_of("a 4000/100;b 4000/100 1x500;c 4000/100");
  ASSERT_EQ(workload.classes.size(), 2U);
  EXPECT_EQ(workload.classes[0].what.cards, 0);
}

TEST(TargetWorkload, PutsPodsTogetherThatDifferInMainMemoryAlone) {
  const auto workload = workload_of("a 4000/100 1x500;b 4000/300 1x500");
  ASSERT_EQ(workload.classes.size(), 1U);
  EXPECT_EQ(workload.classes[0].what.host.memory, MiB(200));
}

class Apart : public testing::TestWithParam<const char*> {};

TEST_P(Apart, AreTwoClasses) {
  EXPECT_EQ(workload_of(GetParam()).classes.size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Pods, Apart,
                         testing::Values("a 4000/1 1x500;b 4001/1 1x500",
                                         "a 4000/1 1x500;b 4000/1 1x510",
                                         "a 4000/1 1x1000;b 4000/1 2x1000",
                                         "a 4000/1 1x500;b 4000/1 1x500 T4",
                                         "a 4000/1 1x500 T4;b 4000/1 1x500 T4|G2"));

TEST(TargetWorkload, LeavesOutWhatIsRarerThanOneInTwenty) {
  std::string pods = "rare 1/1 1x10";
  for (int i = 0; i < 30; ++i) pods += ";p" + std::to_string(i) + " 1/1 1x1000";
  const auto workload = workload_of(pods.c_str());
  ASSERT_EQ(workload.classes.size(), 1U);
  EXPECT_DOUBLE_EQ(workload.classes[0].probability, 1);
}

struct Ordered {
  const char* kept;
  const char* left_out;
};

class EquallyCommon : public testing::TestWithParam<Ordered> {};

// Two that come once, and 37 alike: 95 % of 39 pods are reached with the first of the two.
TEST_P(EquallyCommon, AreKeptInThePublishedOrderWhicheverComesFirst) {
  std::string others;
  for (int i = 0; i < 37; ++i) others += ";p" + std::to_string(i) + " 1/1 1x1000";
  const auto last_of = [&](const std::string& first, const std::string& second) {
    return workload_of(("a " + first + ";b " + second + others).c_str()).classes.back().what;
  };
  const auto [kept, left_out] = GetParam();
  EXPECT_EQ(last_of(kept, left_out), last_of(kept, kept));
  EXPECT_EQ(last_of(left_out, kept), last_of(kept, kept));
}

INSTANTIATE_TEST_SUITE_P(Pods, EquallyCommon,
                         testing::Values(Ordered{"2/1 1x500", "1/1 1x600"},
                                         Ordered{"1/1 1x600", "1/1 1x500"},
                                         Ordered{"1/1 4x1000", "1/1 2x1000"},
                                         Ordered{"1/1 1x500 T4", "1/1 1x500 P100"}));

TEST(TargetWorkload, KeepsCardMemoryApartWhereThereIsSome) {
  std::string pods;
  for (int i = 0; i < 100; ++i) pods += "p" + std::to_string(i) + " 1/1 1x500;";
  EXPECT_EQ(workload_of(pods.c_str()).classes.size(), 1U);
  EXPECT_EQ(workload_of(pods.c_str(), MemoryRule::kReference).classes.size(), 5U);
}

// Two pods on the node, and the price snapshot after each of them.
struct MarketMakers : testing::Test {
  extender::PriceSnapshot price_snapshot() const { return *maker->board()->current(); }
  bool has_market() const { return maker->board()->current() != nullptr; }
  void start(const MakeMarketMaker& make) {
    maker = make();
    cycle.emplace(objects, *extender::find_policy("equilibrium"), maker->board(), SchedulerRules{},
                  42);
  }
  // How common the pods of half a card are thought to be.
  double share_of_halves() const {
    double sum = 0;
    for (const auto& one : price_snapshot().workload.classes)
      if (one.what.per_card.core == Percent(50)) sum += one.probability;
    return sum;
  }
  void schedule(std::size_t pod) {
    cycle->schedule(pod, "u" + std::to_string(next_uid++), *maker);
    maker->refresh_if_due(cycle->ledger());
  }

  Trace trace = trace_of(kNode, "a 4000/100 1x1000;b 4000/100 1x500;c 4000/100 1x500");
  Objects objects{trace, MemoryRule::kNone};
  std::unique_ptr<PriceMaker> maker;
  std::optional<Cycle> cycle;
  int next_uid = 0;
};

TEST_F(MarketMakers, TheWholeListIsKnownFromTheFirstPodOn) {
  start(known_workload(objects));
  EXPECT_EQ(price_snapshot().workload.classes.size(), 2U);
  EXPECT_TRUE(price_snapshot().tables.empty()) << "no prices";
  schedule(0);
  EXPECT_EQ(price_snapshot().version, 1U) << "the same to the end";
}

TEST_F(MarketMakers, PricesOfTheWholeListFollowTheCluster) {
  start(known_workload(objects, true));
  EXPECT_FALSE(has_market());
  schedule(0);
  EXPECT_EQ(price_snapshot().workload.classes.size(), 2U);
  EXPECT_FALSE(price_snapshot().tables.empty());
  const std::uint64_t version = price_snapshot().version;
  schedule(1);
  EXPECT_NE(price_snapshot().version, version);
}

TEST_F(MarketMakers, WhatIsLearnedAreThePodsThatCame) {
  start(learned_workload());
  schedule(1);
  const double before = share_of_halves();
  schedule(2);
  EXPECT_GT(share_of_halves(), before);
}

}  // namespace
}  // namespace mgpu::trace
