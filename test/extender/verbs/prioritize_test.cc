#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "extender/placement/holds.h"
#include "extender/placement/limits.h"
#include "test/extender/verbs/verbs_world.h"
#include "test/support/price_snapshot_text.h"

namespace mgpu::extender {
namespace {

using mgpu::test::at_ms;
using mgpu::test::bound_claim;
using mgpu::test::expected_text;
using test::add_node;
using test::args_of;
using test::options_of;
using test::PodText;
using testing::ElementsAre;
using testing::Pair;

struct PrioritizeTest : testing::Test, test::VerbsWorld {
  std::map<std::string, std::int64_t> run_prioritize(const PodText& pod,
                                                     const std::vector<std::string>& names) {
    const ExtenderArgs args = args_of(pod, names);
    std::map<std::string, std::int64_t> scores;
    const auto answer = prioritize(args, context, at_ms(0));
    EXPECT_EQ(answer.size(), names.size());
    for (const auto& score : answer) scores.emplace(score.node, score.score);
    return scores;
  }
};

TEST_F(PrioritizeTest, TheBestGetsTenAndTheOthersKeepTheirOrder) {
  for (const char* node : {"n1: 0[100/8000]", "n2: 0[100/8000]", "n3: 0[100/8000]"}) {
    add_node(ledger, node);
  }
  ledger.apply_pod(bound_claim("a", "n1", "10/800", "0"));
  ledger.apply_pod(bound_claim("b", "n2", "50/4000", "0"));
  const auto scores = run_prioritize({}, {"n1", "n2", "n3"});
  EXPECT_EQ(scores.at("n2"), 10);
  EXPECT_GT(scores.at("n1"), scores.at("n3"));
  EXPECT_EQ(scores.at("n3"), 1);
}

TEST_F(PrioritizeTest, OfEqualNodesTheFirstByNameIsBestAndTheOthersStayEqual) {
  for (const char* node : {"a: 0[100/8000]", "b: 0[100/8000]", "c: 0[100/8000]"}) {
    add_node(ledger, node);
  }
  EXPECT_THAT(run_prioritize({}, {"c", "b", "a"}),
              ElementsAre(Pair("a", 10), Pair("b", 9), Pair("c", 9)));
}

TEST_F(PrioritizeTest, ThePodsPolicyChoosesTheNode) {
  add_node(ledger, "full: 0[100/8000]");
  add_node(ledger, "idle: 0[100/8000]");
  ledger.apply_pod(bound_claim("a", "full", "50/4000", "0"));
  EXPECT_EQ(run_prioritize({}, {"full", "idle"}).at("full"), 10);
  const PodText spread{.annotations = R"("vke.volcengine.com/mgpu-policy":"spread")"};
  EXPECT_EQ(run_prioritize(spread, {"full", "idle"}).at("idle"), 10);
}

TEST_F(PrioritizeTest, NodesThatDoNotFitScoreZero) {
  add_node(ledger, "n1: 0[100/8000]");
  add_node(ledger, "n2: 0[100/512]");
  EXPECT_THAT(run_prioritize({}, {"ghost", "n1", "n2"}),
              ElementsAre(Pair("ghost", 0), Pair("n1", 10), Pair("n2", 0)));
}

TEST_F(PrioritizeTest, ANonGpuPodAndAnInvalidPodScoreZeroEverywhere) {
  add_node(ledger, "n1: 0[100/8000]");
  EXPECT_THAT(run_prioritize({.requests = {""}}, {"n1"}), ElementsAre(Pair("n1", 0)));
  EXPECT_THAT(run_prioritize({.requests = {"30"}}, {"n1"}), ElementsAre(Pair("n1", 0)));
  EXPECT_EQ(ledger.reader().counts().expected, 0u);
}

TEST_F(PrioritizeTest, RecordsTheExpectedPlacementOnTheBestNode) {
  add_node(ledger, "n1: 0[100/8000]");
  add_node(ledger, "n2: 0[100/8000] 1[100/8000]");
  ledger.apply_pod(bound_claim("a", "n1", "10/800", "0"));
  run_prioritize({.requests = {"60/1024", "60/1024"}}, {"n1", "n2"});
  EXPECT_EQ(expected_text(ledger, "n1"), "0=0/0");
  EXPECT_EQ(expected_text(ledger, "n2"), "0=60/1024 1=60/1024");
}

TEST_F(PrioritizeTest, NodesThatFitOnlyWithoutExpectedPlacementsScoreZero) {
  add_node(ledger, "a: 0[100/8000]");
  add_node(ledger, "b: 0[100/8000]");
  EXPECT_EQ(run_prioritize({.name = "first", .requests = {"100"}}, {"a", "b"}).at("a"), 10);
  EXPECT_THAT(run_prioritize({.name = "second", .requests = {"100"}}, {"a", "b"}),
              ElementsAre(Pair("a", 0), Pair("b", 10)));
}

TEST_F(PrioritizeTest, TheBestNodeGetsTenAlsoWhereAllHaveExpectedPlacements) {
  add_node(ledger, "a: 0[100/8000]");
  add_node(ledger, "b: 0[100/8000]");
  run_prioritize({.name = "first", .requests = {"100"}}, {"a", "b"});
  run_prioritize({.name = "second", .requests = {"100"}}, {"a", "b"});
  EXPECT_THAT(run_prioritize({.name = "third", .requests = {"100"}}, {"a", "b"}),
              ElementsAre(Pair("a", 10), Pair("b", 0)));
}

TEST_F(PrioritizeTest, TheOldExpectedPlacementOfThePodDoesNotCount) {
  add_node(ledger, "a: 0[100/8000]");
  add_node(ledger, "b: 0[100/8000]");
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(run_prioritize({.requests = {"100"}}, {"a", "b"}),
                ElementsAre(Pair("a", 10), Pair("b", 9)));
  }
  EXPECT_EQ(ledger.reader().counts().expected, 1u);
}

TEST_F(PrioritizeTest, RecordsNoExpectedPlacementWhereThatIsOff) {
  options.expected_placements = false;
  add_node(ledger, "a: 0[100/8000]");
  EXPECT_EQ(run_prioritize({}, {"a"}).at("a"), 10);
  EXPECT_EQ(ledger.reader().counts().expected, 0u);
}

// Consecutive pods that each need a whole node, and are not bound yet, get different nodes.
TEST_F(PrioritizeTest, PodsBetweenFilterAndBindGetDifferentNodes) {
  std::vector<std::string> names;
  for (int i = 0; i < 8; ++i) {
    names.push_back("n" + std::to_string(i));
    add_node(ledger, names.back() + ": 0[100/8000] 1[100/8000]");
  }
  std::map<std::string, int> chosen;
  for (int i = 0; i < 8; ++i) {
    const auto scores =
        run_prioritize({.name = "p" + std::to_string(i), .requests = {"200"}}, names);
    const auto best = std::ranges::find(scores, 10, [](const auto& score) { return score.second; });
    ASSERT_NE(best, scores.end());
    ++chosen[best->first];
  }
  EXPECT_EQ(chosen.size(), 8u);
}

using PolicyScores = std::map<std::string_view, Score>;

// The scores of the policies for the nodes that fit.
PolicyScores policy_scores(const ExtenderArgs& args, Ledger& ledger, const VerbOptions& options) {
  const auto request = *read_request(args.pod(), options.contract, options.min_memory);
  PolicyScores scores;
  ledger.reader().read(at_ms(0), [&](const View& view) {
    for (const auto name : args.node_names()) {
      const auto& node = *view.find(name);
      SearchBudget budget{kPlacementStepsMax};
      const auto answer = place(node, request, *options.policy.card, budget);
      const auto* placed = std::get_if<Placed>(&answer);
      if (placed == nullptr) continue;
      scores[name] =
          options.policy.node->score_node(request, node, holds(node, request, placed->placement));
    }
  });
  return scores;
}

bool in_order(const HostScore& a, const HostScore& b, const PolicyScores& policy) {
  if (!policy.contains(a.node) || !policy.contains(b.node)) return true;
  const auto score_a = policy.at(a.node);
  const auto score_b = policy.at(b.node);
  if (score_a > score_b) return a.score >= b.score;
  if (score_a < score_b) return a.score <= b.score;
  return a.score == b.score || a.score == 10 || b.score == 10;
}

// Prices for `workload` on `nodes`.
PriceSnapshotPtr prices_of(const std::string& workload, const std::vector<Node>& nodes) {
  return std::make_shared<const PriceSnapshot>(mgpu::test::price_snapshot_of(workload, nodes));
}

TEST_F(PrioritizeTest, NonGpuPodsAreNotRankedWhereThePolicyDoesNotRankThem) {
  add_node(ledger, "a: 0[100/8000]");
  add_node(ledger, "b: 0[100/8000]");
  EXPECT_THAT(run_prioritize({.requests = {""}}, {"a", "b"}),
              ElementsAre(Pair("a", 0), Pair("b", 0)));
}

TEST_F(PrioritizeTest, ANonGpuPodIsRankedOnceThereArePrices) {
  add_node(ledger, "a: 0[100/8000]");
  add_node(ledger, "b: 0[100/8000]");
  options = options_of("equilibrium");
  EXPECT_THAT(run_prioritize({.requests = {""}}, {"a", "b"}),
              ElementsAre(Pair("a", 0), Pair("b", 0)));
  prices.publish(prices_of("1 x whole@8", {mgpu::test::node_of("a: 0[100/8000]")}));
  EXPECT_THAT(run_prioritize({.requests = {""}}, {"b", "a"}),
              ElementsAre(Pair("a", 10), Pair("b", 9)));
}

TEST_F(PrioritizeTest, NodesWithoutCardsGetTheSameScoreForANonGpuPod) {
  for (const char* node : {"a: 0[100/8000]", "no-cards-1:", "no-cards-2:"}) add_node(ledger, node);
  options = options_of("equilibrium");
  prices.publish(prices_of("1 x whole@8", {mgpu::test::node_of("a: 0[100/8000]")}));
  EXPECT_THAT(run_prioritize({.requests = {""}}, {"a", "no-cards-1", "no-cards-2"}),
              ElementsAre(Pair("a", 9), Pair("no-cards-1", 10), Pair("no-cards-2", 10)));
}

TEST_F(PrioritizeTest, PrioritizeNonGpuScoresNonGpuPodsOnly) {
  for (const char* node : {"a: 0[100/8000]", "no-cards:"}) add_node(ledger, node);
  options = options_of("equilibrium");
  const auto run = [&](const PodText& pod) {
    const ExtenderArgs args = args_of(pod, {"a", "no-cards"});
    std::map<std::string, std::int64_t> scores;
    for (const auto& score : prioritize_non_gpu(args, context, at_ms(0)))
      scores.emplace(score.node, score.score);
    return scores;
  };
  EXPECT_TRUE(run({.requests = {""}}).empty()) << "there are no prices";
  prices.publish(prices_of("1 x whole@8", {mgpu::test::node_of("a: 0[100/8000]")}));
  EXPECT_THAT(run({.requests = {""}}), ElementsAre(Pair("a", 9), Pair("no-cards", 10)));
  EXPECT_TRUE(run({.requests = {"30/1024"}}).empty()) << "with cards";
  EXPECT_TRUE(run({.requests = {"30/1"}}).empty()) << "a bad request";
  EXPECT_EQ(ledger.reader().counts().expected, 0U);
}

TEST_F(PrioritizeTest, PricesDecideWhereThereAreAny) {
  add_node(ledger, "a: 0[100/8000]");
  add_node(ledger, "b: 0[100/8000]");
  ledger.apply_pod(bound_claim("x", "a", "15/800", "0"));
  ledger.apply_pod(bound_claim("y", "b", "20/800", "0"));
  options = options_of("equilibrium");
  options.expected_placements = false;
  EXPECT_EQ(run_prioritize({.requests = {"30/1024"}}, {"a", "b"}).at("b"), 10)
      << "the same as binpack";
  // 85 - 30 leaves room for a 55; 80 - 30 does not.
  prices.publish(
      prices_of("1 x 55/0, 1 x 30/0", {mgpu::test::node_of("n: 0[85/8000 of 8000] 1[80/8000]")}));
  EXPECT_EQ(run_prioritize({.requests = {"30/1024"}}, {"a", "b"}).at("a"), 10);
}

TEST_F(PrioritizeTest, AFilteredPodIsLearned) {
  add_node(ledger, "a: 0[100/8000]");
  for (int again = 0; again < 3; ++again) filter(args_of({.name = "p"}, {"a"}), context, at_ms(0));
  filter(args_of({.name = "q", .requests = {""}}, {"a"}), context, at_ms(0));
  filter(args_of({.name = "refused", .requests = {"30/1"}}, {"a"}), context, at_ms(0));
  EXPECT_EQ(window.pods_seen(), 2U);
}

// In every cluster exactly one node gets 10 where any fits, the other nodes that fit get 1 to 9 in
// the order of the policy, and nodes that do not fit get 0.
void expect_properties(const std::vector<HostScore>& scores, const PolicyScores& policy) {
  const auto best = std::ranges::count(scores, 10, &HostScore::score);
  ASSERT_EQ(best, policy.empty() ? 0 : 1);
  for (const auto& a : scores) {
    ASSERT_GE(a.score, 0);
    ASSERT_LE(a.score, 10);
    ASSERT_EQ(a.score > 0, policy.contains(a.node));
    for (const auto& b : scores) ASSERT_TRUE(in_order(a, b, policy)) << a.node << " " << b.node;
  }
}

TEST_F(PrioritizeTest, PropertiesHoldForRandomClusters) {
  std::mt19937 random(20240901);
  const auto text = [&](int least, int most) {
    return std::to_string(std::uniform_int_distribution<int>(least, most)(random));
  };
  for (int round = 0; round < 300; ++round) {
    Ledger fresh;
    std::vector<std::string> names;
    for (int n = std::stoi(text(1, 12)); n > 0; --n) {
      names.push_back("n" + std::to_string(n));
      add_node(fresh, names.back() + ": 0[100/8000] 1[100/4000]");
      const std::string share = text(1, 99) + "/" + text(1, 4000);
      fresh.apply_pod(bound_claim("u" + names.back(), names.back(), share, text(0, 1)));
      mgpu::test::assume_text(fresh, "v" + names.back(), names.back(), share);
    }
    options = options_of(round % 2 == 0 ? "binpack" : "spread");
    const ExtenderArgs args = args_of({.requests = {text(1, 100) + "/" + text(256, 4255)}}, names);
    const PolicyScores policy = policy_scores(args, fresh, options);
    expect_properties(prioritize(args, {options, fresh, budgets, prices}, at_ms(0)), policy);
    if (HasFatalFailure()) FAIL() << "round " << round;
  }
}

}  // namespace
}  // namespace mgpu::extender
