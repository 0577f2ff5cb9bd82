// The search for the fewest victims, compared with all sets of victims.
#include "extender/placement/preemption/victim_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <tuple>

#include "extender/placement/limits.h"
#include "test/support/cluster_text.h"
#include "test/support/random_cluster.h"

namespace mgpu::extender {
namespace {

using test::node_of;
using test::RandomCluster;
using test::request_of;
using test::share_of;

constexpr std::uint64_t kWorlds = 800;

struct World {
  Node node;
  GpuRequest request;
  std::vector<Victim> victims;  // in the order of costs_less
};

World world_of(std::uint64_t seed) {
  RandomCluster random(seed);
  World world;
  world.node = random.node(3);
  for (Card& card : world.node.cards)
    if (!random.one_in(4)) card.used = {Percent(100), card.capacity.memory};
  world.request = random.request(random.one_in(2) ? 1 : 2, 2);
  const auto candidates = random.candidates(world.node, 8);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Victim victim{
        i, candidates[i].priority, candidates[i].start_time, candidates[i].breaks_budget, {}};
    for (const CardHold& hold : candidates[i].holds) {
      const Card* card = world.node.find(hold.card);
      victim.frees.push_back(
          {static_cast<std::size_t>(card - world.node.cards.data()), hold.share});
    }
    if (!victim.frees.empty()) world.victims.push_back(std::move(victim));
  }
  std::ranges::sort(world.victims, costs_less);
  return world;
}

bool fits_without(const World& world, std::uint32_t gone) {
  Node node = world.node;
  for (std::size_t i = 0; i < world.victims.size(); ++i)
    if ((gone >> i & 1) != 0)
      for (const Freed& freed : world.victims[i].frees)
        node.cards[freed.card].used = room_in(node.cards[freed.card].used, freed.share);
  SearchBudget budget{kPlacementStepsMax};
  return !why_not(node, world.request, budget);
}

std::size_t violations_of(const World& world, std::uint32_t gone) {
  std::size_t violations = 0;
  for (std::size_t i = 0; i < world.victims.size(); ++i)
    violations += (gone >> i & 1) != 0 && world.victims[i].breaks_budget ? 1 : 0;
  return violations;
}

// Number, sum of priorities, and the starts, ascending; the later ones cost less.
struct Cost {
  int count = 0;
  std::int64_t priorities = 0;
  std::vector<std::string> starts;

  bool operator==(const Cost&) const = default;
  bool operator<(const Cost& other) const {
    return std::tie(count, priorities, other.starts) <
           std::tie(other.count, other.priorities, starts);
  }
};

Cost cost_of(const World& world, std::uint32_t gone) {
  Cost cost{std::popcount(gone), 0, {}};
  for (std::size_t i = 0; i < world.victims.size(); ++i) {
    if ((gone >> i & 1) == 0) continue;
    cost.priorities += world.victims[i].priority;
    const std::string& start = world.victims[i].start_time;
    cost.starts.push_back(start.empty() ? "~" : start);
  }
  std::ranges::sort(cost.starts);
  return cost;
}

// Of all sets within the bounds.
std::optional<Cost> least_cost(const World& world, const VictimSearch::Bounds& bounds) {
  std::optional<Cost> least;
  for (std::uint32_t gone = 0; gone < 1U << world.victims.size(); ++gone) {
    if (std::cmp_greater(std::popcount(gone), bounds.victims)) continue;
    if (violations_of(world, gone) > bounds.violations || !fits_without(world, gone)) continue;
    const Cost cost = cost_of(world, gone);
    if (!least || cost < *least) least = cost;
  }
  return least;
}

std::size_t fewest_violations(const World& world) {
  std::size_t fewest = world.victims.size();
  for (std::uint32_t gone = 0; gone < 1U << world.victims.size(); ++gone)
    if (fits_without(world, gone)) fewest = std::min(fewest, violations_of(world, gone));
  return fewest;
}

struct Found {
  std::optional<std::vector<std::size_t>> victims;
  bool out_of_steps = false;
};

Found search(const World& world, const VictimSearch::Bounds& bounds, std::uint32_t steps) {
  SearchBudget budget{steps};
  VictimSearch search(EvictedNode(world.node, world.request), world.victims, budget);
  return {search.fewest(bounds), search.out_of_steps()};
}

std::uint32_t set_of(const std::vector<std::size_t>& victims) {
  std::uint32_t set = 0;
  for (const std::size_t victim : victims) set |= 1U << victim;
  return set;
}

TEST(VictimSearchProperty, FindsTheSetOfTheLeastCost) {
  std::size_t with_victims = 0;
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const World world = world_of(seed);
    const VictimSearch::Bounds bounds{world.victims.size(), fewest_violations(world)};
    const auto least = least_cost(world, bounds);
    const auto found = search(world, bounds, kPlacementStepsMax);
    ASSERT_FALSE(found.out_of_steps);
    ASSERT_EQ(found.victims.has_value(), least.has_value());
    if (!least) continue;
    ASSERT_TRUE(std::ranges::is_sorted(*found.victims));
    ASSERT_TRUE(fits_without(world, set_of(*found.victims)));
    ASSERT_EQ(cost_of(world, set_of(*found.victims)), *least);
    with_victims += found.victims->empty() ? 0 : 1;
  }
  EXPECT_GT(with_victims, kWorlds / 10);
}

// With other bounds the number of victims is still the least.
TEST(VictimSearchProperty, FindsTheFewestWithinAnyBounds) {
  for (std::uint64_t seed = 0; seed < kWorlds / 2; ++seed) {
    const World world = world_of(seed);
    for (std::size_t victims = 0; victims <= 3; ++victims) {
      for (std::size_t violations = 0; violations <= 2; ++violations) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ": " + std::to_string(victims) + ", " +
                     std::to_string(violations));
        const auto least = least_cost(world, {victims, violations});
        const auto found = search(world, {victims, violations}, kPlacementStepsMax);
        ASSERT_EQ(found.victims.has_value(), least.has_value());
        if (!least) continue;
        ASSERT_EQ(found.victims->size(), static_cast<std::size_t>(least->count));
        ASSERT_LE(violations_of(world, set_of(*found.victims)), violations);
        ASSERT_EQ(cost_of(world, set_of(*found.victims)).priorities, least->priorities);
      }
    }
  }
}

// When the steps run out there is no result, or a set of the smallest size.
TEST(VictimSearchProperty, TooFewStepsNeverCauseAWrongResult) {
  std::size_t unknown = 0;
  for (std::uint64_t seed = 0; seed < kWorlds / 4; ++seed) {
    const World world = world_of(seed);
    const VictimSearch::Bounds bounds{world.victims.size(), world.victims.size()};
    const auto least = least_cost(world, bounds);
    for (const std::uint32_t steps : {0U, 2U, 5U, 10U, 20U, 50U}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", steps " + std::to_string(steps));
      const auto found = search(world, bounds, steps);
      unknown += found.out_of_steps ? 1 : 0;
      if (!found.victims) {
        ASSERT_TRUE(found.out_of_steps || !least);
        continue;
      }
      ASSERT_TRUE(least && fits_without(world, set_of(*found.victims)));
      ASSERT_EQ(found.victims->size(), static_cast<std::size_t>(least->count));
    }
  }
  EXPECT_GT(unknown, kWorlds / 4);
}

TEST(CostsLess, IsAStrictOrder) {
  const Victim cheap{.candidate = 0, .priority = 1, .start_time = "2026-01-02"};
  Victim breaks = cheap;
  breaks.breaks_budget = true;
  breaks.priority = 0;
  Victim dear = cheap;
  dear.priority = 2;
  Victim older = cheap;
  older.start_time = "2026-01-01";
  Victim waiting = cheap;
  waiting.start_time = "";
  Victim next = cheap;
  next.candidate = 1;
  for (const Victim& more : {breaks, dear, older, next}) {
    EXPECT_TRUE(costs_less(cheap, more));
    EXPECT_FALSE(costs_less(more, cheap));
  }
  EXPECT_TRUE(costs_less(waiting, cheap)) << "a pod that has not started is the latest";
  EXPECT_FALSE(costs_less(cheap, cheap));
}

TEST(EvictedNode, RestoreUndoesEvict) {
  const Node node = node_of("n: 0[0/0 of 1000] 1[100/1000]");
  const GpuRequest request = request_of("60/500x2");
  EvictedNode evicted(node, request);
  const Victim half{.frees = {{0, share_of("50/500")}}};
  const Victim all{.frees = {{0, share_of("70/700")}, {1, share_of("10/100")}}};
  const auto fits = [&] {
    SearchBudget budget{kPlacementStepsMax};
    return evicted.fits(budget);
  };
  EXPECT_EQ(fits(), false);
  evicted.evict(half);
  EXPECT_EQ(fits(), false);
  evicted.evict(all);
  EXPECT_EQ(fits(), true);
  evicted.restore(half);
  EXPECT_EQ(fits(), true);
  evicted.restore(all);
  EXPECT_EQ(fits(), false);
}

}  // namespace
}  // namespace mgpu::extender
