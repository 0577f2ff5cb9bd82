#include "bench/trace/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/trace/fragmentation_sum.h"
#include "bench/trace/policies/policies.h"
#include "test/bench/trace/small_trace.h"
#include "test/support/fragmentation.h"

namespace mgpu::trace {
namespace {

using testing::DoubleNear;

Trace synthetic() {
  auto trace = synthetic_trace("");
  EXPECT_TRUE(trace);
  return std::move(*trace);
}

RunOptions options_for(const Objects& objects, std::string_view policy) {
  return {.policy = *find_policy(policy),
          .make_price_source = known_workload(objects),
          .measure = extender::TargetWorkload(target_workload(objects))};
}

class EveryPolicy : public testing::TestWithParam<std::string_view> {};

TEST_P(EveryPolicy, AllocatesMostCardsAndOvercommitsNone) {
  const Trace trace = synthetic();
  const Objects objects(trace, MemoryRule::kNone);
  const RunOptions options = options_for(objects, GetParam());
  const SeedResult result = run_seed(objects, options, 1);
  EXPECT_EQ(result.overcommitted, 0);
  EXPECT_GT(*result.at(100), 70);
  EXPECT_LE(*result.at(130), 100);
  EXPECT_GT(result.stats.us_per_decision(), 0);
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicy,
                         testing::Values("equilibrium", "binpack", "spread", "fgd", "bestfit",
                                         "packing", "clustering", "dotprod", "random"));

TEST(Run, IsTheSameForTheSameSeed) {
  const Trace trace = synthetic();
  const Objects objects(trace, MemoryRule::kReference);
  for (const Ties ties : {Ties::kFirst, Ties::kRandom}) {
    RunOptions options = options_for(objects, "random");
    options.scheduler.ties = ties;
    const SeedResult one = run_seed(objects, options, 5);
    const SeedResult again = run_seed(objects, options, 5);
    const SeedResult other = run_seed(objects, options, 6);
    EXPECT_EQ(*one.at(100), *again.at(100));
    EXPECT_EQ(one.stats.decisions, again.stats.decisions);
    EXPECT_NE(*one.at(100), *other.at(100));
  }
}

TEST(Run, GivesResultsInTheOrderOfSeedsWhateverTheJobs) {
  const Trace trace = synthetic();
  const Objects objects(trace, MemoryRule::kNone);
  const RunOptions options = options_for(objects, "bestfit");
  const std::vector<std::uint64_t> seeds{9, 3, 4, 3};
  const auto alone = run_seeds(objects, options, seeds, 1);
  const auto together = run_seeds(objects, options, seeds, 16);
  ASSERT_EQ(together.size(), 4U);
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    EXPECT_EQ(together[i].seed, seeds[i]);
    EXPECT_EQ(*together[i].at(100), *alone[i].at(100));
    EXPECT_EQ(together[i].stats.decisions, alone[i].stats.decisions);
  }
}

// Two nodes have one card each, and three pods request one.
TEST(Run, ReportsPodsThatFitAndPodsThatDoNot) {
  const Trace trace = test::trace_of("n0 8000/1000 1xT4;n1 8000/1000 1xT4",
                                     "a 1/1 1x1000;b 1/1 1x1000;c 9000/1;d 1/1 2x1000");
  const Objects objects(trace, MemoryRule::kNone);
  RunOptions options = options_for(objects, "binpack");
  options.arrived_until = 200;
  const SeedResult result = run_seed(objects, options, 1);
  EXPECT_EQ(result.stats.decisions, 4);
  EXPECT_EQ(result.stats.unplaced, 2);
  EXPECT_EQ(*result.at(200), 100);
  EXPECT_EQ(result.at(201), std::nullopt);
  EXPECT_EQ(result.at(-1), std::nullopt);
}

TEST(Run, MeasuresTheFragmentationOfTheWholeCluster) {
  // Half of the pods request no card, and an empty card is a fragment for them.
  const Trace trace = test::trace_of("n0 8000/1000 4xT4", "a 1/1 1x1000;b 1/1");
  const Objects objects(trace, MemoryRule::kNone);
  RunOptions options = options_for(objects, "binpack");
  options.arrived_until = 50;
  for (const CurvePoint& point : run_seed(objects, options, 1).curve) {
    if (point.allocation == 0 && point.fragmentation_amount == 0) continue;
    EXPECT_THAT(point.fragmentation_rate, DoubleNear(50, 1e-9)) << point.arrived;
    EXPECT_THAT(point.fragmentation_amount, DoubleNear((100 - point.allocation) / 2, 1e-9));
  }
}

TEST(FragmentationSum, IsTheSumOverNodesHoweverTheyChange) {
  const Trace trace = synthetic();
  const Objects objects(trace, MemoryRule::kNone);
  const auto workload = target_workload(objects);
  const extender::TargetWorkload target(workload);
  FragmentationSum sum(target, trace.nodes.size());
  const auto price_source = known_workload(objects)();
  Cycle cycle(objects, *find_policy("random"), price_source->prices(), {}, 1);
  const auto update = [&](std::size_t node) {
    cycle.ledger().reader().read({}, [&](const extender::View& view) {
      sum.update(node, *view.find(cycle.node_name(node).str()));
    });
  };
  for (std::size_t node = 0; node < trace.nodes.size(); ++node) update(node);
  for (std::size_t pod = 0; pod < 300; ++pod) {
    const Outcome outcome = cycle.schedule(pod, "u" + std::to_string(pod), *price_source);
    if (outcome.node) update(*outcome.node);
  }
  double expected = 0;
  for (std::size_t node = 0; node < trace.nodes.size(); ++node)
    expected += test::expected_fragmentation(
        cycle.ledger().reader().node(cycle.node_name(node))->node, workload);
  EXPECT_GT(expected, 0);
  EXPECT_THAT(sum.milli(), DoubleNear(expected, 1e-4 * expected));
}

}  // namespace
}  // namespace mgpu::trace
