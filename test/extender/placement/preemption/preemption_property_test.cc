// choose_victims against a brute force over all sets of candidates.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "extender/placement/limits.h"
#include "extender/placement/place.h"
#include "extender/placement/preemption/preemption.h"
#include "test/support/random_cluster.h"

namespace mgpu::extender {
namespace {

using test::RandomCluster;

constexpr std::uint64_t kWorlds = 2000;

struct World {
  Node node;
  GpuRequest request;
  std::vector<Candidate> candidates;
};

World world_of(std::uint64_t seed) {
  RandomCluster random(seed);
  World world;
  world.node = random.node(4);
  for (Card& card : world.node.cards) {
    if (!random.one_in(4)) card.used = {Percent(100), card.capacity.memory};
  }
  world.request = random.request(random.one_in(2) ? 1 : 3, 2);
  world.candidates = random.candidates(world.node, 9);
  return world;
}

bool fits_without(const World& world, std::uint32_t gone) {
  Node node = world.node;
  for (std::size_t i = 0; i < world.candidates.size(); ++i) {
    if ((gone >> i & 1) == 0) continue;
    for (const CardHold& hold : world.candidates[i].holds) {
      node.find(hold.card)->used -= hold.share;
    }
  }
  SearchBudget budget{kPlacementStepsMax};
  return !why_not(node, world.request, budget);
}

// The lower is better. Start times are ascending and inverted, so that a later one is lower.
struct Cost {
  std::int64_t violations = 0;
  std::int64_t highest = INT64_MIN;
  std::int64_t count = 0;
  std::int64_t sum = 0;
  std::vector<std::string> starts;

  bool operator<(const Cost& other) const {
    const auto numbers = [](const Cost& cost) {
      return std::tuple(cost.violations, cost.highest, cost.count, cost.sum);
    };
    if (numbers(*this) != numbers(other)) return numbers(*this) < numbers(other);
    return starts > other.starts;
  }
};

Cost cost_of(const World& world, std::uint32_t gone) {
  Cost cost;
  for (std::size_t i = 0; i < world.candidates.size(); ++i) {
    if ((gone >> i & 1) == 0) continue;
    const Candidate& victim = world.candidates[i];
    cost.violations += victim.breaks_budget;
    cost.highest = std::max<std::int64_t>(cost.highest, victim.priority);
    cost.sum += victim.priority;
    ++cost.count;
    cost.starts.push_back(victim.start_time.empty() ? "not yet" : victim.start_time);
  }
  std::ranges::sort(cost.starts);
  return cost;
}

std::optional<std::uint32_t> cheapest_by_brute_force(const World& world) {
  std::optional<std::uint32_t> best;
  for (std::uint32_t gone = 0; gone < 1u << world.candidates.size(); ++gone) {
    if (!fits_without(world, gone)) continue;
    if (!best || cost_of(world, gone) < cost_of(world, *best)) best = gone;
  }
  return best;
}

std::optional<Eviction> victims_for(const Node& node, const GpuRequest& request,
                                    const std::vector<Candidate>& candidates) {
  SearchBudget unbounded{std::numeric_limits<std::uint32_t>::max()};
  return choose_victims(node, request, candidates, std::nullopt, unbounded);
}

TEST(PreemptionProperty, TheCheapestSetIsFoundExactlyWhereOneExists) {
  std::size_t with_victims = 0;
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const World world = world_of(seed);
    const auto eviction = victims_for(world.node, world.request, world.candidates);
    const auto best = cheapest_by_brute_force(world);
    ASSERT_EQ(eviction.has_value(), best.has_value());
    if (!eviction) continue;
    std::uint32_t chosen = 0;
    for (const std::size_t victim : eviction->victims) chosen |= 1u << victim;
    with_victims += chosen != 0;
    ASSERT_TRUE(fits_without(world, chosen));
    EXPECT_FALSE(cost_of(world, *best) < cost_of(world, chosen));
    EXPECT_TRUE(std::ranges::is_sorted(eviction->victims));
    EXPECT_EQ(cost_of(world, chosen).violations,
              static_cast<std::int64_t>(eviction->budget_violations));
  }
  EXPECT_GT(with_victims, kWorlds / 10);
}

}  // namespace
}  // namespace mgpu::extender
