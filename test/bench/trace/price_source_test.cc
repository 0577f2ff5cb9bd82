#include "bench/trace/price_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "bench/trace/cycle.h"
#include "bench/trace/policies/policies.h"
#include "test/bench/trace/small_trace.h"

namespace mgpu::trace {
namespace {

using test::trace_of;

const char* const kNode = "n0 64000/262144 8xT4";

extender::Workload workload_of(const char* pods, MemoryRule rule = MemoryRule::kNone) {
  const Trace trace = trace_of(kNode, pods);
  return target_workload(Objects(trace, rule));
}

TEST(TargetWorkload, CountsPodsWithEqualRequests) {
  const auto workload =
      workload_of("a 4000/100 1x1000;b 4000/100 1x500;c 4000/100 1x1000;d 4000/100 1x1000");
  ASSERT_EQ(workload.classes.size(), 2U);
  EXPECT_DOUBLE_EQ(workload.classes[0].probability, 0.75);
  EXPECT_TRUE(workload.classes[0].what.whole);
  EXPECT_EQ(workload.classes[0].what.resources.cpu, extender::MilliCpu(4000));
  EXPECT_DOUBLE_EQ(workload.classes[1].probability, 0.25);
  EXPECT_EQ(workload.classes[1].what.per_card.core, Percent(50));
}

TEST(TargetWorkload, CountsPodsWithoutCards) {
  const auto workload = workload_of("a 4000/100;b 4000/100 1x500;c 4000/100");
  ASSERT_EQ(workload.classes.size(), 2U);
  EXPECT_EQ(workload.classes[0].what.cards, 0);
}

TEST(TargetWorkload, MergesPodsThatDifferOnlyInMainMemory) {
  const auto workload = workload_of("a 4000/100 1x500;b 4000/300 1x500");
  ASSERT_EQ(workload.classes.size(), 1U);
  EXPECT_EQ(workload.classes[0].what.resources.memory, MiB(200));
}

class DifferentPods : public testing::TestWithParam<const char*> {};

TEST_P(DifferentPods, FormTwoClasses) {
  EXPECT_EQ(workload_of(GetParam()).classes.size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Pods, DifferentPods,
                         testing::Values("a 4000/1 1x500;b 4001/1 1x500",
                                         "a 4000/1 1x500;b 4000/1 1x510",
                                         "a 4000/1 1x1000;b 4000/1 2x1000",
                                         "a 4000/1 1x500;b 4000/1 1x500 T4",
                                         "a 4000/1 1x500 T4;b 4000/1 1x500 T4|G2"));

TEST(TargetWorkload, OmitsTheRarestFivePercent) {
  std::string pods = "rare 1/1 1x10";
  for (int i = 0; i < 30; ++i) pods += ";p" + std::to_string(i) + " 1/1 1x1000";
  const auto workload = workload_of(pods.c_str());
  ASSERT_EQ(workload.classes.size(), 1U);
  EXPECT_DOUBLE_EQ(workload.classes[0].probability, 1);
}

struct KeptAndOmitted {
  const char* kept;
  const char* omitted;
};

class EquallyFrequentPods : public testing::TestWithParam<KeptAndOmitted> {};

// Two pods differ and 37 are alike. 95 % of the 39 pods are covered with the first of the two.
TEST_P(EquallyFrequentPods, AreKeptInThePublishedOrder) {
  std::string others;
  for (int i = 0; i < 37; ++i) others += ";p" + std::to_string(i) + " 1/1 1x1000";
  const auto last_of = [&](const std::string& first, const std::string& second) {
    return workload_of(("a " + first + ";b " + second + others).c_str()).classes.back().what;
  };
  const auto [kept, omitted] = GetParam();
  EXPECT_EQ(last_of(kept, omitted), last_of(kept, kept));
  EXPECT_EQ(last_of(omitted, kept), last_of(kept, kept));
}

INSTANTIATE_TEST_SUITE_P(Pods, EquallyFrequentPods,
                         testing::Values(KeptAndOmitted{"2/1 1x500", "1/1 1x600"},
                                         KeptAndOmitted{"1/1 1x600", "1/1 1x500"},
                                         KeptAndOmitted{"1/1 4x1000", "1/1 2x1000"},
                                         KeptAndOmitted{"1/1 1x500 T4", "1/1 1x500 P100"}));

TEST(TargetWorkload, SeparatesClassesByCardMemory) {
  std::string pods;
  for (int i = 0; i < 100; ++i) pods += "p" + std::to_string(i) + " 1/1 1x500;";
  EXPECT_EQ(workload_of(pods.c_str()).classes.size(), 1U);
  EXPECT_EQ(workload_of(pods.c_str(), MemoryRule::kReference).classes.size(), 5U);
}

struct PriceSourceTest : testing::Test {
  extender::PriceSnapshot price_snapshot() const { return *source->prices()->current(); }
  bool has_prices() const { return source->prices()->current() != nullptr; }
  void start(const PriceSourceFactory& make) {
    source = make();
    cycle.emplace(objects, *find_policy("equilibrium"), source->prices(), SchedulerRules{}, 42);
  }
  // The probability of pods that request half a card.
  double share_of_halves() const {
    double sum = 0;
    for (const auto& one : price_snapshot().workload.classes)
      if (one.what.per_card.core == Percent(50)) sum += one.probability;
    return sum;
  }
  void schedule(std::size_t pod) {
    cycle->schedule(pod, "u" + std::to_string(next_uid++), *source);
    source->refresh_if_due(cycle->ledger());
  }

  Trace trace = trace_of(kNode, "a 4000/100 1x1000;b 4000/100 1x500;c 4000/100 1x500");
  Objects objects{trace, MemoryRule::kNone};
  std::unique_ptr<PriceSource> source;
  std::optional<Cycle> cycle;
  int next_uid = 0;
};

TEST_F(PriceSourceTest, KnowsTheWholeListFromTheFirstPodOn) {
  start(known_workload(objects));
  EXPECT_EQ(price_snapshot().workload.classes.size(), 2U);
  EXPECT_TRUE(price_snapshot().tables.empty()) << "no prices";
  schedule(0);
  EXPECT_EQ(price_snapshot().version, 1U) << "the same to the end";
}

TEST_F(PriceSourceTest, RefreshesThePricesOfAKnownWorkload) {
  start(known_workload(objects, true));
  EXPECT_FALSE(has_prices());
  schedule(0);
  EXPECT_EQ(price_snapshot().workload.classes.size(), 2U);
  EXPECT_FALSE(price_snapshot().tables.empty());
  const std::uint64_t version = price_snapshot().version;
  schedule(1);
  EXPECT_NE(price_snapshot().version, version);
}

TEST_F(PriceSourceTest, LearnsFromThePodsThatHaveArrived) {
  start(learned_workload());
  schedule(1);
  const double before = share_of_halves();
  schedule(2);
  EXPECT_GT(share_of_halves(), before);
}

}  // namespace
}  // namespace mgpu::trace
