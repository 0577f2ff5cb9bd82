// The packing search with any open cards, any kind of room and any number of steps, compared with
// an exhaustive search of all assignments.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "extender/placement/policies/policies.h"
#include "extender/placement/search.h"
#include "test/support/cluster_text.h"
#include "test/support/random_cluster.h"

namespace mgpu::extender {
namespace {

using test::RandomCluster;
using test::text_of;

constexpr std::uint64_t kWorlds = 1500;

struct World {
  Node node;
  GpuRequest request;
  CardSet open = 0;
  Room room = Room::kNow;
};

// Equal cards, each cut into two or three parts that fill it: there is a placement, which
// first fit decreasing seldom finds. In some, one part is a little too large.
World tight_world(RandomCluster& random) {
  World world;
  const int cards = 2 + random.number(2);
  for (int i = 0; i < cards; ++i) {
    Card& card = world.node.cards.emplace_back();
    card.index = CardIndex(i);
    card.capacity = {kWholeCard, MiB(1000)};
    std::int64_t left = 100;
    for (int parts = 2 + random.number(2); parts > 0; --parts) {
      const std::int64_t part =
          parts == 1 ? left : 10 + 10 * random.number(static_cast<int>(left) / 20);
      left -= part;
      ContainerRequest& container = world.request.containers.emplace_back();
      container.per_card = {Percent(part), MiB(part)};
    }
  }
  if (random.one_in(4)) world.request.containers.front().per_card.core += Percent(1);
  for (std::size_t i = 0; i < world.request.containers.size(); ++i)
    world.request.containers[i].name = "c" + std::to_string(i);
  world.open = (CardSet{1} << cards) - 1;
  return world;
}

// Few sizes and many equal containers and cards: the search often skips equal ones.
World loose_world(RandomCluster& random) {
  constexpr Room kRooms[] = {Room::kNow, Room::kAfterExpected, Room::kEmpty};
  World world;
  world.node = random.node(3);
  if (world.node.cards.size() > 1 && random.one_in(2)) {
    const Card first = world.node.cards.front();
    for (Card& card : world.node.cards) {
      card.used = first.used;
      card.expected = first.expected;
      card.capacity = first.capacity;
    }
  }
  world.request = random.request(4, 3);
  if (random.one_in(2)) {
    for (ContainerRequest& container : world.request.containers)
      if (!container.whole) container.per_card = {Percent(20 + 20 * random.number(2)), MiB(200)};
  }
  for (std::size_t i = 0; i < world.node.cards.size(); ++i)
    if (!random.one_in(5)) world.open |= CardSet{1} << i;
  world.room = kRooms[random.number(3)];
  return world;
}

World world_of(std::uint64_t seed) {
  RandomCluster random(seed);
  return seed % 3 == 0 ? tight_world(random) : loose_world(random);
}

// Which containers each card has, by position.
using Assignment = std::vector<ContainerSet>;

bool within_room(const World& world, const Assignment& on) {
  for (std::size_t card = 0; card < on.size(); ++card) {
    const Card& one = world.node.cards[card];
    const Share held = hold_on(one.capacity, world.request.containers, on[card]);
    if (on[card] != 0 && (world.open >> card & 1) == 0) return false;
    if (on[card] != 0 && !held.fits_in(room_of(one, world.room))) return false;
  }
  return true;
}

bool any_assignment(const World& world, Assignment& on, std::size_t container) {
  if (!within_room(world, on)) return false;  // more containers never hold less of a card
  if (container == world.request.containers.size()) return true;
  for (CardSet cards = 0; cards < CardSet{1} << on.size(); ++cards) {
    if (std::popcount(cards) != world.request.containers[container].cards) continue;
    Assignment with = on;
    for (std::size_t card = 0; card < on.size(); ++card)
      if ((cards >> card & 1) != 0) with[card] |= ContainerSet{1} << container;
    if (any_assignment(world, with, container + 1)) return true;
  }
  return false;
}

bool exists(const World& world) {
  Assignment on(world.node.cards.size());
  return any_assignment(world, on, 0);
}

std::optional<Assignment> assignment_of(const World& world, const Placement& placement) {
  Assignment on(world.node.cards.size());
  for (std::size_t i = 0; i < placement.cards_of.size(); ++i) {
    if (std::cmp_not_equal(placement.cards_of[i].size(), world.request.containers[i].cards))
      return std::nullopt;
    for (const CardIndex index : placement.cards_of[i]) {
      const Card* card = world.node.find(index);
      if (card == nullptr) return std::nullopt;
      on[static_cast<std::size_t>(card - world.node.cards.data())] |= ContainerSet{1} << i;
    }
  }
  return on;
}

Outcome expect_true_answer(const World& world, const Policy* policy, std::uint32_t steps,
                           bool exists) {
  const PlacementContext context(world.request);
  SearchBudget budget{steps};
  Search search(world.node, world.open, world.room, context, policy, budget);
  const Outcome outcome = search.run();
  EXPECT_LE(budget.steps, steps);
  if (outcome == Outcome::kNone) EXPECT_FALSE(exists) << steps << " steps";
  if (outcome != Outcome::kFound) return outcome;
  const auto on = assignment_of(world, search.placement());
  EXPECT_TRUE(on && within_room(world, *on)) << text_of(search.placement());
  return outcome;
}

// Of equal cards it prefers the last one, and cards of the second model.
const Policy kBackwards{.name = "backwards",
                        .score_card = [](const PlacementContext&, const Node&, const Card& card,
                                         const Share&, const Share&) -> Score {
                          return 10 * card.index.value() + static_cast<Score>(card.kind % 7);
                        },
                        .score_node = [](const PlacementContext&, const Node&,
                                         const std::vector<CardHold>&) -> Score { return 0; }};

TEST(SearchProperty, FindsAPlacementExactlyWhereOneExists) {
  std::size_t found = 0;
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const World world = world_of(seed);
    const bool there_is = exists(world);
    found += there_is ? 1 : 0;
    const Outcome expected = there_is ? Outcome::kFound : Outcome::kNone;
    ASSERT_EQ(expect_true_answer(world, nullptr, 1'000'000, there_is), expected);
    ASSERT_EQ(expect_true_answer(world, &kBinpack, 1'000'000, there_is), expected);
    ASSERT_EQ(expect_true_answer(world, &kBackwards, 1'000'000, there_is), expected);
  }
  EXPECT_GT(found, kWorlds / 5);
  EXPECT_LT(found, kWorlds * 4 / 5);
}

// With too few steps the result may be kBound, but never a wrong one.
TEST(SearchProperty, TooFewStepsNeverCauseAWrongResult) {
  std::size_t unknown = 0;
  for (std::uint64_t seed = 0; seed < kWorlds / 3; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const World world = world_of(seed);
    const bool there_is = exists(world);
    for (const std::uint32_t steps : {0U, 1U, 3U, 6U, 9U, 12U, 20U, 40U})
      unknown += expect_true_answer(world, &kBinpack, steps, there_is) == Outcome::kBound ? 1 : 0;
  }
  EXPECT_GT(unknown, kWorlds / 3);
}

TEST(SearchProperty, MoreStepsNeverLoseAResult) {
  for (std::uint64_t seed = 0; seed < kWorlds / 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const World world = world_of(seed);
    const bool there_is = exists(world);
    bool known = false;
    for (std::uint32_t steps = 0; steps < 60; steps += 2) {
      const bool now = expect_true_answer(world, nullptr, steps, there_is) != Outcome::kBound;
      ASSERT_TRUE(now || !known) << steps << " steps";
      known = now;
    }
  }
}

}  // namespace
}  // namespace mgpu::extender
