#include "bench/trace/cycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "bench/trace/policies/policies.h"
#include "test/bench/trace/fixed_prices.h"
#include "test/bench/trace/small_trace.h"

namespace mgpu::trace {
namespace {

using test::FixedPrices;
using test::trace_of;
using testing::ElementsAre;
using testing::MatchesRegex;

// A trace, and the objects that schedule its pods.
struct World {
  World(const char* nodes, const char* pods, const char* policy = "binpack",
        SchedulerRules rules = {}, std::uint64_t seed = 42)
      : trace(trace_of(nodes, pods)),
        cycle(objects, *find_policy(policy), prices.prices(), rules, seed) {}

  Outcome schedule(std::size_t pod) {
    return cycle.schedule(pod, "u" + std::to_string(next_uid++), prices);
  }

  Trace trace;
  Objects objects{trace, MemoryRule::kReference};
  FixedPrices prices;
  Cycle cycle;
  int next_uid = 0;
};

std::string cards_text(const Outcome& outcome) {
  if (!outcome.node) return "nowhere";
  std::string text = std::to_string(*outcome.node) + ":";
  for (const auto& container : outcome.cards.cards_of)
    for (const CardIndex card : container) text += " " + std::to_string(card.value());
  return text;
}

TEST(Cycle, PlacesWhereTheCardsAre) {
  World world("n0 8000/1000;n1 8000/1000 2xT4", "a 1000/10 2x1000");
  EXPECT_EQ(cards_text(world.schedule(0)), "1: 0 1");
}

TEST(Cycle, RanksNodesForNonGpuPodsByTheDefaultsOfKubeScheduler) {
  const char* const nodes = "n0 8000/1000 1xT4;n1 64000/1000 1xT4";
  World by_defaults(nodes, "a 1000/10;b 1000/10 1x1000", "packing",
                    {.non_gpu = NonGpuRanking::kDefaults});
  EXPECT_EQ(cards_text(by_defaults.schedule(0)), "1:") << "the emptier one";
  EXPECT_EQ(cards_text(by_defaults.schedule(1)), "0: 0") << "with cards the policy decides";
  World by_extender(nodes, "a 1000/10;b 1000/10 1x1000", "packing",
                    {.non_gpu = NonGpuRanking::kExtender});
  EXPECT_EQ(cards_text(by_extender.schedule(0)), "0:");
}

TEST(Cycle, PrefersNodesWhoseCardsDoNotNeedTheCpuForNonGpuPods) {
  const char* const nodes = "n0 40000/1000 1xT4;n1 64000/1000 8xT4";
  const char* const pods = "a 1000/10;b 1000/10;c 1/1 8x1000";
  World by_taints(nodes, pods, "packing");
  EXPECT_EQ(cards_text(by_taints.schedule(0)), "0:");
  EXPECT_EQ(cards_text(by_taints.schedule(1)), "0:") << "though it is the fuller one by now";
  EXPECT_EQ(cards_text(by_taints.schedule(2)), "1: 0 1 2 3 4 5 6 7");
  EXPECT_EQ(cards_text(by_taints.schedule(0)), "1:") << "its cards need no CPU any more";
  World by_defaults(nodes, pods, "packing", {.non_gpu = NonGpuRanking::kDefaults});
  by_defaults.schedule(0);
  EXPECT_EQ(cards_text(by_defaults.schedule(1)), "1:");
}

// 300 nodes, of which kube-scheduler examines 144 for a pod.
TEST(Cycle, ExaminesTheNextNodesWhereNoneFits) {
  std::string nodes;
  for (int i = 0; i < 300; ++i)
    nodes += "n" + std::to_string(i) + (i == 299 ? " 8000/1000 1xG2" : " 8000/1000 1xT4;");
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    World world(nodes.c_str(), "a 1/1 1x100 G2", "binpack", {}, seed);
    EXPECT_EQ(cards_text(world.schedule(0)), "299: 0") << seed;
  }
}

TEST(Cycle, ConfirmsWhatItPlaced) {
  World world("n0 8000/1000 2xT4", "a 1000/10 1x1000;b 2000/20");
  world.schedule(0);
  world.schedule(1);
  EXPECT_EQ(world.cycle.ledger().reader().counts().bound, 1U);
  EXPECT_EQ(world.cycle.ledger().reader().counts().assumed, 0U);
  EXPECT_EQ(world.cycle.ledger().reader().counts().expected, 0U);
  const auto node = world.cycle.ledger().reader().node(world.cycle.node_name(0));
  ASSERT_TRUE(node);
  EXPECT_EQ(node->node.resources_used,
            (extender::NodeResources{extender::MilliCpu(3000), MiB(30)}));
  EXPECT_EQ(node->node.cards[0].used.core, Percent(100));
}

TEST(Cycle, PlacesNothingWithoutEnoughCpuMemoryCardsOrTheModel) {
  World world("n0 8000/1000 2xT4;n1 4000/1000 8xG2",
              "cpu 8001/10 1x100;memory 1/1001;model 1/1 1x100 P100;cards 5000/1 3x1000");
  for (std::size_t pod = 0; pod < 4; ++pod)
    EXPECT_EQ(cards_text(world.schedule(pod)), "nowhere") << pod;
  EXPECT_EQ(world.cycle.ledger().reader().counts().bound, 0U);
  EXPECT_EQ(world.cycle.bookkeeping().allocated_milli(), 0);
}

TEST(Cycle, LeavesNoExpectedPlacementWhenOneNodeIsLeft) {
  World world("n0 8000/1000 1xT4;n1 4000/1000 1xG2", "a 1/1 1x100 G2");
  EXPECT_EQ(cards_text(world.schedule(0)), "1: 0");
  EXPECT_EQ(world.cycle.ledger().reader().counts().expected, 0U);
}

TEST(Cycle, FollowsThePolicy) {
  const char* nodes = "n0 8000/1000 2xT4;n1 8000/1000 2xT4";
  const char* pods = "a 1/1 1x300;b 1/1 1x200";
  World packed(nodes, pods, "binpack");
  const auto first = packed.schedule(0);
  EXPECT_EQ(cards_text(packed.schedule(1)), cards_text(first));
  World spread(nodes, pods, "spread");
  const auto alone = spread.schedule(0);
  EXPECT_NE(spread.schedule(1).node, alone.node);
}

TEST(Cycle, ShowsEveryPodToThePriceSourceOnce) {
  World world("n0 8000/1000 1xT4", "a 1/1 1x1000;b 1/1;c 9999/1");
  for (std::size_t pod = 0; pod < 3; ++pod) world.schedule(pod);
  EXPECT_EQ(world.prices.pods_observed, 3);
}

TEST(Cycle, NamesNodesByTheSeed) {
  const char* nodes = "n0 8000/1000 1xT4;n1 8000/1000 1xT4";
  World world(nodes, "a 1/1 1x100");
  EXPECT_THAT(world.cycle.node_name(0).str(), MatchesRegex("[0-9][0-9][0-9][0-9]-n0"));
  EXPECT_THAT(world.cycle.node_name(1).str(), MatchesRegex("[0-9][0-9][0-9][0-9]-n1"));
  World same(nodes, "a 1/1 1x100");
  EXPECT_EQ(world.cycle.node_name(0), same.cycle.node_name(0));
  std::set<NodeName> names;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    names.insert(World(nodes, "a 1/1 1x100", "binpack", {}, seed).cycle.node_name(0));
  EXPECT_THAT(names, ElementsAre(NodeName("0000-n0"), NodeName("0001-n0")));
}

TEST(Cycle, TakesTheSmallestNameAmongEquals) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    World world("n0 8000/1000 1xT4;n1 8000/1000 1xT4;n2 8000/1000 1xT4", "a 1/1;b 1/1 1x500",
                "binpack", {}, seed);
    std::size_t first = 0;
    for (std::size_t node = 1; node < 3; ++node)
      if (world.cycle.node_name(node) < world.cycle.node_name(first)) first = node;
    EXPECT_EQ(*world.schedule(0).node, first) << "without cards";
    EXPECT_EQ(*world.schedule(1).node, first) << "with cards";
  }
}

TEST(Cycle, TakesAnyOfEqualsWhereTiesAreRandom) {
  std::set<std::size_t> non_gpu;
  std::set<std::pair<NodeName, NodeName>> with_cards;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    World world("n0 8000/1000 1xT4;n1 8000/1000 1xT4", "a 1/1;b 1/1 1x500", "binpack",
                {.ties = Ties::kRandom}, seed);
    const auto smallest = std::min(world.cycle.node_name(0), world.cycle.node_name(1));
    EXPECT_EQ(world.cycle.node_name(*world.schedule(1).node), smallest)
        << "there is no tie among nodes with cards";
    non_gpu.insert(*world.schedule(0).node);
  }
  EXPECT_EQ(non_gpu.size(), 2U);
}

TEST(Cycle, ReleasesWhatATerminatedPodHeld) {
  World world("n0 1000/10 1xT4", "a 1000/10 1x1000;b 1000/10");
  const Outcome first = world.schedule(0);
  EXPECT_EQ(cards_text(world.schedule(1)), "nowhere");
  world.cycle.remove(0, "u0", *first.node, first.cards);
  const Outcome second = world.schedule(1);
  EXPECT_EQ(cards_text(second), "0:");
  EXPECT_EQ(cards_text(world.schedule(0)), "nowhere");
  world.cycle.remove(1, "u2", *second.node, second.cards);
  EXPECT_EQ(cards_text(world.schedule(0)), "0: 0");
  EXPECT_EQ(world.cycle.bookkeeping().overcommitted(), 0);
}

// After thousands of arrivals and terminations the bookkeeping and the ledger agree.
class Agreement : public testing::TestWithParam<const char*> {};

TEST_P(Agreement, HoldsBetweenBookkeepingAndLedger) {
  const auto trace = synthetic_trace("");
  ASSERT_TRUE(trace);
  const Objects objects(*trace, MemoryRule::kReference);
  FixedPrices prices;
  Cycle cycle(objects, *find_policy(GetParam()), prices.prices(), {.ties = Ties::kRandom}, 7);
  struct RunningPod {
    std::size_t pod;
    std::string uid;
    Outcome outcome;
  };
  std::vector<RunningPod> running;
  Draws draws(7, 99);
  for (int step = 0; step < 3000; ++step) {
    const std::size_t pod = draws.below(trace->pods.size());
    const std::string uid = "u" + std::to_string(step);
    Outcome outcome = cycle.schedule(pod, uid, prices);
    if (outcome.node) running.push_back({pod, uid, std::move(outcome)});
    if (running.size() < 500 && draws.below(2) == 0) continue;
    if (running.empty()) continue;
    std::swap(running[draws.below(running.size())], running.back());
    cycle.remove(running.back().pod, running.back().uid, *running.back().outcome.node,
                 running.back().outcome.cards);
    running.pop_back();
  }
  EXPECT_EQ(cycle.bookkeeping().overcommitted(), 0);
  std::int64_t core = 0;
  extender::NodeResources used;
  for (std::size_t node = 0; node < trace->nodes.size(); ++node) {
    const auto view = cycle.ledger().reader().node(cycle.node_name(node));
    ASSERT_TRUE(view);
    for (const extender::Card& card : view->node.cards) core += card.used.core.value();
    used += view->node.resources_used;
  }
  EXPECT_EQ(core * 10, cycle.bookkeeping().allocated_milli());
  extender::NodeResources held;
  for (const RunningPod& pod : running) held += trace->pods[pod.pod].resources;
  EXPECT_EQ(used, held);
  EXPECT_GT(running.size(), 100U);
}

INSTANTIATE_TEST_SUITE_P(Policies, Agreement, testing::Values("binpack", "spread", "random"));

}  // namespace
}  // namespace mgpu::trace
