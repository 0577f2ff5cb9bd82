// place and why_not, compared with a brute force over all assignments, on small random nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "extender/placement/explain.h"
#include "extender/placement/fit.h"
#include "extender/placement/limits.h"
#include "extender/placement/place.h"
#include "extender/placement/policies/policies.h"
#include "test/support/cluster_text.h"
#include "test/support/random_cluster.h"

namespace mgpu::extender {
namespace {

using test::RandomCluster;
using test::text_of;

constexpr std::uint64_t kWorlds = 4000;

// A second implementation of the Kubernetes rule.
Share held_on(const Card& card, const GpuRequest& request, const Placement& placement) {
  const auto share_of = [&](std::size_t i) {
    const auto& cards = placement.cards_of[i];
    const bool on = std::ranges::find(cards, card.index) != cards.end();
    return on ? request.containers[i].on(card.capacity) : Share{};
  };
  Share all;
  Share most;
  for (std::size_t i = 0; i < request.containers.size(); ++i) {
    if (request.containers[i].kind != ContainerKind::kInit) {
      all += share_of(i);
      continue;
    }
    Share beside = share_of(i);
    for (std::size_t before = 0; before < i; ++before) {
      if (request.containers[before].kind == ContainerKind::kSidecar) beside += share_of(before);
    }
    if (!share_of(i).zero()) most = max_of(most, beside);
  }
  return max_of(most, all);
}

bool within_capacity(const Node& node, const GpuRequest& request, const Placement& placement) {
  return std::ranges::all_of(node.cards, [&](const Card& card) {
    const Share held = held_on(card, request, placement);
    return held.zero() ||
           (card.usable() && matches(request.selector, card) && held.fits_in(card.room()));
  });
}

// Every choice of distinct cards for the containers from `at` on.
bool any_assignment(const Node& node, const GpuRequest& request, Placement& placement,
                    std::size_t at) {
  if (at == request.containers.size()) return within_capacity(node, request, placement);
  const auto wanted = static_cast<std::size_t>(request.containers[at].cards);
  for (std::uint32_t set = 0; set < 1u << node.cards.size(); ++set) {
    placement.cards_of[at].clear();
    for (std::size_t i = 0; i < node.cards.size(); ++i) {
      if ((set >> i & 1) != 0) placement.cards_of[at].push_back(node.cards[i].index);
    }
    if (placement.cards_of[at].size() != wanted) continue;
    if (any_assignment(node, request, placement, at + 1)) return true;
  }
  placement.cards_of[at].clear();
  return false;
}

bool brute_force_fits(const Node& node, const GpuRequest& request) {
  Placement placement;
  placement.cards_of.resize(request.containers.size());
  return any_assignment(node, request, placement, 0);
}

struct World {
  Node node;
  GpuRequest request;
};

World world_of(std::uint64_t seed) {
  RandomCluster random(seed);
  World world;
  world.node = random.node(4);
  world.request = random.request(4, 3);
  return world;
}

std::variant<Placed, Reason> placed(const World& world, const Policy& policy) {
  SearchBudget budget{kPlacementStepsMax};
  return place(world.node, world.request, policy, budget);
}

std::optional<Reason> reason_of(const World& world) {
  SearchBudget budget{kPlacementStepsMax};
  return why_not(world.node, world.request, budget);
}

void expect_sound(const World& world, const Placement& placement) {
  ASSERT_EQ(placement.cards_of.size(), world.request.containers.size());
  for (std::size_t i = 0; i < placement.cards_of.size(); ++i) {
    const auto& cards = placement.cards_of[i];
    EXPECT_EQ(cards.size(), static_cast<std::size_t>(world.request.containers[i].cards));
    EXPECT_EQ(std::ranges::adjacent_find(cards, std::ranges::greater_equal{}), cards.end());
  }
  EXPECT_TRUE(within_capacity(world.node, world.request, placement)) << text_of(placement);
  for (const CardHold& hold : holds(world.node, world.request, placement)) {
    const Card* card = world.node.find(hold.card);
    ASSERT_NE(card, nullptr);
    EXPECT_EQ(hold.share, held_on(*card, world.request, placement));
    EXPECT_TRUE(hold.share.fits_in(card->room()));
  }
}

TEST(PlaceProperty, APlacementIsFoundExactlyWhereOneExists) {
  std::size_t fitting = 0;
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const World world = world_of(seed);
    const bool fits = brute_force_fits(world.node, world.request);
    fitting += fits;
    ASSERT_EQ(!reason_of(world), fits);
    for (const Policy* policy : {&kBinpack, &kSpread}) {
      const auto result = placed(world, *policy);
      ASSERT_EQ(std::holds_alternative<Placed>(result), fits) << policy->name;
      if (fits) expect_sound(world, std::get<Placed>(result).placement);
      if (!fits) {
        EXPECT_EQ(std::get<Reason>(result), reason_of(world));
      }
    }
  }
  // The test is only meaningful where both results are common.
  EXPECT_GT(fitting, kWorlds / 5);
  EXPECT_LT(fitting, kWorlds * 4 / 5);
}

TEST(PlaceProperty, RoomForExpectedPodsIsLeftExactlyWhereThatIsPossible) {
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    const World world = world_of(seed);
    const auto result = placed(world, kBinpack);
    if (!std::holds_alternative<Placed>(result)) continue;
    World after = world;
    for (Card& card : after.node.cards) card.used += card.expected;
    EXPECT_EQ(std::get<Placed>(result).beside_expected,
              brute_force_fits(after.node, after.request) ||
                  !std::ranges::any_of(world.node.cards,
                                       [](const Card& card) { return !card.expected.zero(); }))
        << "seed " << seed;
  }
}

TEST(PlaceProperty, ExpectedPodsNeverCauseARefusal) {
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    World world = world_of(seed);
    const auto reason = reason_of(world);
    const bool fits = std::holds_alternative<Placed>(placed(world, kSpread));
    for (Card& card : world.node.cards) card.expected = Share{};
    EXPECT_EQ(reason_of(world), reason) << "seed " << seed;
    EXPECT_EQ(std::holds_alternative<Placed>(placed(world, kSpread)), fits) << "seed " << seed;
  }
}

TEST(PlaceProperty, AReleaseNeverMakesAPodUnfit) {
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    World world = world_of(seed);
    if (reason_of(world)) continue;
    RandomCluster random(seed + kWorlds);
    for (Card& card : world.node.cards) {
      const Share less{Percent(10 * random.number(5)), MiB(100 * random.number(5))};
      card.used = room_in(card.used, less);
      EXPECT_FALSE(reason_of(world)) << "seed " << seed;
    }
  }
}

TEST(PlaceProperty, EqualInputsGiveEqualResults) {
  for (std::uint64_t seed = 0; seed < kWorlds / 4; ++seed) {
    const auto first = placed(world_of(seed), kBinpack);
    const auto second = placed(world_of(seed), kBinpack);
    ASSERT_EQ(first.index(), second.index());
    if (const auto* found = std::get_if<Placed>(&first)) {
      EXPECT_EQ(found->placement, std::get<Placed>(second).placement);
    }
  }
}

// Reasons for which no eviction helps are those that apply to an empty node, too.
TEST(PlaceProperty, EvictionCanHelpExactlyWhereThePodFitsAnEmptyNode) {
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    World world = world_of(seed);
    const auto reason = reason_of(world);
    if (!reason) continue;
    for (Card& card : world.node.cards) {
      card.used = Share{};
      card.uncertain = false;
    }
    EXPECT_EQ(eviction_can_help(*reason), brute_force_fits(world.node, world.request))
        << "seed " << seed << ": " << sentence(*reason);
  }
}

TEST(PlaceProperty, ExplanationsAgreeWithTheDecision) {
  for (std::uint64_t seed = 0; seed < kWorlds / 4; ++seed) {
    const World world = world_of(seed);
    SearchBudget steps{kPlacementStepsMax};
    const auto explanation = explain(world.node, world.request, kBinpack, steps);
    ASSERT_EQ(explanation.reason, reason_of(world)) << "seed " << seed;
    ASSERT_NE(explanation.reason.has_value(), explanation.placement.has_value());
    for (const auto& card : explanation.cards) EXPECT_EQ(card.fits, card.why.empty());
    if (world.request.containers.size() > 1) continue;
    const auto fitting = std::ranges::count_if(explanation.cards, &CardExplanation::fits);
    EXPECT_EQ(fitting >= world.request.containers[0].cards, !explanation.reason) << "seed " << seed;
  }
}

// The cards of a single container are those with the highest scores.
TEST(PlaceProperty, SingleContainersGetTheHighestScores) {
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    World world = world_of(seed);
    world.request.containers.resize(1);
    for (Card& card : world.node.cards) card.expected = Share{};
    const auto result = placed(world, kBinpack);
    if (!std::holds_alternative<Placed>(result)) continue;
    const ContainerRequest& container = world.request.containers[0];
    const auto& chosen = std::get<Placed>(result).placement.cards_of[0];
    Score lowest = kScoreMax;
    Score highest_left = 0;
    for (const Card& card : world.node.cards) {
      const Share share = container.on(card.capacity);
      if (!card.usable() || !matches(world.request.selector, card)) continue;
      if (!share.fits_in(card.room())) continue;
      const Score score = kBinpack.score_card(GpuRequest{}, world.node, card, card.used, share);
      const bool is_chosen = std::ranges::find(chosen, card.index) != chosen.end();
      if (is_chosen) lowest = std::min(lowest, score);
      if (!is_chosen) highest_left = std::max(highest_left, score);
    }
    EXPECT_GE(lowest, highest_left) << "seed " << seed;
  }
}

}  // namespace
}  // namespace mgpu::extender
