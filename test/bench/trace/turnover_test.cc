#include "bench/trace/turnover.h"

#include <gtest/gtest.h>

#include "bench/trace/policies/policies.h"
#include "test/bench/trace/small_trace.h"

namespace mgpu::trace {
namespace {

RunOptions turnover_options(const Objects& objects, std::string_view policy = "binpack") {
  return {
      .policy = *find_policy(policy), .make_price_source = known_workload(objects), .measure = {}};
}

TurnoverResult run(const Trace& trace, double load, std::uint64_t seed = 1,
                   std::string_view policy = "binpack") {
  const Objects objects(trace, MemoryRule::kReference);
  return run_turnover(objects, turnover_options(objects, policy), load, seed);
}

// 64 nodes of one card, and pods that request one card each. Queueing theory calls this 64 servers
// without a queue.
Trace servers() {
  std::string nodes;
  for (int i = 0; i < 64; ++i) nodes += "n" + std::to_string(i) + " 9/9 1xT4;";
  return test::trace_of(nodes, "a 1/1 1x1000");
}

// Erlang's B formula: the probability that all 64 servers are busy at the offered load `load`.
double erlang_b(double load) {
  double blocked = 1;
  for (int servers = 1; servers <= 64; ++servers)
    blocked = load * blocked / (servers + load * blocked);
  return blocked;
}

class ErlangLoss : public testing::TestWithParam<double> {};

TEST_P(ErlangLoss, IsWhatFullServersReject) {
  const Trace trace = servers();
  double rejected = 0;
  double held = 0;
  constexpr int kSeeds = 20;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const TurnoverResult result = run(trace, GetParam(), seed);
    EXPECT_EQ(result.overcommitted, 0);
    EXPECT_DOUBLE_EQ(result.rejected_gpus, result.rejected_pods);
    rejected += result.rejected_gpus / kSeeds;
    held += result.allocation / kSeeds;
  }
  const double blocked = erlang_b(0.64 * GetParam());
  EXPECT_NEAR(rejected, 100 * blocked, 2.5);
  EXPECT_NEAR(held, GetParam() * (1 - blocked), 2.5);
}

INSTANTIATE_TEST_SUITE_P(Loads, ErlangLoss, testing::Values(50., 100., 150.));

TEST(Turnover, HasAsManyArrivalsAsTheLoadNeeds) {
  const Trace trace = test::trace_of("n0 9/9 6xT4;n1 9/9 4xT4", "a 1/1 1x500;b 1/1");
  // A pod requests a quarter of a card on average, so 20 pods hold half of ten cards. The run lasts
  // eight lifetimes.
  EXPECT_DOUBLE_EQ(expected_arrivals(trace, 50), 160);
  double decisions = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed)
    decisions += static_cast<double>(run(trace, 50, seed).stats.decisions) / 40;
  EXPECT_NEAR(decisions, 160, 10);
}

TEST(Turnover, CountsPodsWithoutCardsAmongThoseRejectedOnly) {
  const Trace trace = test::trace_of("n0 1000/1000 1xT4", "a 1/1 1x1000;b 2000/1");
  const TurnoverResult result = run(trace, 400);
  EXPECT_GT(result.rejected_pods, 30);
  EXPECT_LT(result.rejected_pods, 100);
  EXPECT_GT(result.stats.unplaced, 0);
}

TEST(Turnover, IsTheSameForTheSameSeed) {
  const Trace trace = servers();
  EXPECT_EQ(run(trace, 90, 7).allocation, run(trace, 90, 7).allocation);
  EXPECT_NE(run(trace, 90, 7).allocation, run(trace, 90, 8).allocation);
}

TEST(Turnover, HasTheSamePodsForEveryPolicy) {
  const auto trace = synthetic_trace("");
  ASSERT_TRUE(trace);
  const TurnoverResult packed = run(*trace, 100, 3, "binpack");
  const TurnoverResult spread = run(*trace, 100, 3, "spread");
  EXPECT_EQ(packed.stats.decisions, spread.stats.decisions);
  EXPECT_LT(packed.rejected_gpus, spread.rejected_gpus);
  EXPECT_EQ(packed.overcommitted, 0);
  EXPECT_EQ(spread.overcommitted, 0);
}

TEST(Turnover, GivesResultsInTheOrderOfSeedsWhateverTheJobs) {
  const Trace trace = servers();
  const Objects objects(trace, MemoryRule::kNone);
  const auto results = run_turnovers(objects, turnover_options(objects), 90, {5, 2, 5}, 3);
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[0].seed, 5U);
  EXPECT_EQ(results[1].seed, 2U);
  EXPECT_EQ(results[0].allocation, results[2].allocation);
  EXPECT_EQ(results[0].allocation,
            run_turnover(objects, turnover_options(objects), 90, 5).allocation);
}

}  // namespace
}  // namespace mgpu::trace
