// A second implementation of one round of refinement.h and of the workload, on small random
// clusters.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "extender/pricing/model_prior.h"
#include "extender/pricing/packing.h"
#include "extender/pricing/refinement.h"
#include "test/support/price_snapshot_text.h"
#include "test/support/random_cluster.h"

namespace mgpu::extender {
namespace {

using test::kinds_of;
using test::RandomCluster;

constexpr std::uint64_t kWorlds = 60;

struct World {
  Workload workload;
  Kinds kinds;
  std::vector<NodeRoom> rooms;
  Prices start;
};

PodClass class_of(RandomCluster& random) {
  PodClass what;
  what.resources = {MilliCpu(1000 * random.number(8)), MiB(1024 * random.number(8))};
  what.cards = random.number(4);
  what.whole = what.cards > 1 || random.one_in(4);
  if (what.cards == 0) return what;
  what.per_card = what.whole
                      ? Share{kWholeCard, MiB{}}
                      : Share{Percent(5 + 5 * random.number(19)), MiB(50 * random.number(8))};
  if (random.one_in(4)) what.models = {"H100"};
  return what;
}

std::vector<CountedClass> counted(RandomCluster& random) {
  std::vector<CountedClass> all;
  for (int i = 1 + random.number(6); i > 0; --i)
    all.push_back({class_of(random), static_cast<double>(random.number(10))});
  return all;
}

World world_of(std::uint64_t seed) {
  RandomCluster random(seed);
  std::vector<Node> nodes;
  for (int i = 0; i < 4; ++i) nodes.push_back(random.node(4));
  World world;
  auto classes = counted(random);
  classes.push_back({{.cards = 1, .per_card = {Percent(30), MiB(100)}}, 3.0});
  world.workload = workload_of(std::move(classes), 1, 100);
  world.kinds = kinds_of(nodes);
  for (const Node& node : nodes) world.rooms.push_back(room_after(node, world.kinds, {}, {}));
  const auto priced = priced_classes(world.workload, world.kinds);
  for (const PricedClass& one : priced)
    world.start.supply.push_back(one.gpus * static_cast<float>(random.number(11)) / 10);
  return world;
}

// The part of a card's memory that a pod of the class takes of all its cards, the largest of all
// kinds that it fits.
double card_memory_of(const PricedClass& one) {
  double most = 0;
  for (std::size_t kind = 1; kind < one.fits.size(); ++kind)
    if (one.fits[kind] != 0)
      most = std::max(most, static_cast<double>(one.card_memory[kind]) * one.cards);
  return most;
}

struct Sums {
  double idle = 0;
  double pods = 0;  // T
};

Sums sums_of(const World& world, const std::vector<PricedClass>& classes) {
  Sums sums;
  double idle_memory = 0;
  for (const NodeRoom& room : world.rooms) {
    for (const CardRoom& card : room.all()) {
      sums.idle += card.percent / 100.0;
      idle_memory += static_cast<double>(card.memory);
    }
  }
  double gpus = 0;
  double memory = 0;
  for (const PricedClass& one : classes) {
    gpus += static_cast<double>(one.probability * one.gpus);
    memory += static_cast<double>(one.probability) * card_memory_of(one);
  }
  sums.pods = gpus > 0 ? sums.idle / gpus : 0;
  if (memory > 0) sums.pods = std::min(sums.pods, idle_memory / memory);
  sums.pods *= kHorizon;
  return sums;
}

// s_c + step * g_c * clip((x_c - N_c) * g_c / idle, -1, 1), within 0 .. g_c.
std::vector<double> next_prices(const World& world, double step) {
  const auto classes = priced_classes(world.workload, world.kinds);
  const PriceTables tables(world.workload, world.kinds, world.start);
  Packing packing(tables);
  for (const NodeRoom& room : world.rooms) packing.add(room);
  const auto& packed = packing.pods();
  const Sums sums = sums_of(world, classes);
  std::map<std::int32_t, double> of_as_many_cards;
  for (const PricedClass& one : classes)
    of_as_many_cards[one.cards] += static_cast<double>(one.probability) * sums.pods;
  std::vector<double> prices;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const double gpus = static_cast<double>(classes[i].gpus);
    double coming = static_cast<double>(classes[i].probability) * sums.pods;
    const double alike = std::max(of_as_many_cards[classes[i].cards], 1e-9);
    if (classes[i].cards > 1) coming *= 1 + kSafety / std::sqrt(alike);
    const double excess = (packed[i] - coming) * gpus / std::max(sums.idle, 1.0);
    const double start = static_cast<double>(world.start.supply[i]);
    prices.push_back(std::clamp(start + step * gpus * std::clamp(excess, -1.0, 1.0), 0.0, gpus));
  }
  return prices;
}

TEST(RefineProperty, OneRoundIsTheFormula) {
  std::size_t moved = 0;
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    const World world = world_of(seed);
    if (PriceTables(world.workload, world.kinds, world.start).empty()) continue;
    const auto prices =
        refine(world.workload, world.kinds, world.rooms, world.start, {.rounds = 1, .step = 0.3F});
    const auto expected = next_prices(world, static_cast<double>(0.3F));
    ASSERT_EQ(prices.supply.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(prices.supply[i]), expected[i], 1e-4)
          << "seed " << seed << " class " << i;
      moved += prices.supply[i] != world.start.supply[i] ? 1 : 0;
    }
  }
  EXPECT_GT(moved, kWorlds);
}

// The mean of the last half of the rounds: of two rounds, the second, which takes a smaller step.
TEST(RefineProperty, TheResultIsTheMeanOfTheLastHalfOfTheRounds) {
  for (std::uint64_t seed = 0; seed < kWorlds / 3; ++seed) {
    World world = world_of(seed);
    if (PriceTables(world.workload, world.kinds, world.start).empty()) continue;
    const auto two =
        refine(world.workload, world.kinds, world.rooms, world.start, {.rounds = 2, .step = 0.3F});
    world.start =
        refine(world.workload, world.kinds, world.rooms, world.start, {.rounds = 1, .step = 0.3F});
    // After half of the rounds the step is 1 - 0.8 * 1 / 2 of the first.
    const auto second = next_prices(world, static_cast<double>(0.3F) * 0.6);
    for (std::size_t i = 0; i < second.size(); ++i)
      ASSERT_NEAR(static_cast<double>(two.supply[i]), second[i], 1e-4) << "seed " << seed;
  }
}

TEST(RefineProperty, PricesStayWithinTheWorthOfTheirClass) {
  for (std::uint64_t seed = 0; seed < kWorlds / 6; ++seed) {
    const World world = world_of(seed);
    const auto prices =
        refine(world.workload, world.kinds, world.rooms, world.start, {.rounds = 8, .step = 1});
    const auto classes = priced_classes(world.workload, world.kinds);
    ASSERT_EQ(prices.supply.size(), classes.size());
    for (std::size_t i = 0; i < classes.size(); ++i) {
      ASSERT_GE(prices.supply[i], 0.0F) << "seed " << seed;
      ASSERT_LE(prices.supply[i], classes[i].gpus) << "seed " << seed;
    }
  }
}

TEST(CarriedOverProperty, PricesOfTheSameWorkloadStayAsTheyAre) {
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    const World world = world_of(seed);
    Workload once;
    Prices prices;
    // Classes that differ only in main memory are the same here.
    for (std::size_t i = 0; i < world.workload.classes.size(); ++i) {
      PodClass what = world.workload.classes[i].what;
      what.resources.memory = MiB{};
      const auto same = [&](const WeightedClass& other) { return other.what == what; };
      if (std::ranges::any_of(once.classes, same)) continue;
      once.classes.push_back({what, 0.5});
      prices.supply.push_back(world.start.supply[i]);
    }
    EXPECT_EQ(carried_over(once, prices, once).supply, prices.supply) << "seed " << seed;
  }
}

// The fewest of the most frequent classes that cover that part of all pods, and of those with cards
// as many as may have prices.
TEST(WorkloadProperty, TheMostFrequentClassesCoverThePart) {
  for (std::uint64_t seed = 0; seed < kWorlds * 10; ++seed) {
    RandomCluster random(seed);
    const auto all = counted(random);
    const double cover = random.number(11) / 10.0;
    const auto most = static_cast<std::size_t>(1 + random.number(6));
    const Workload workload = workload_of(all, cover, most);
    std::vector<CountedClass> sorted = all;
    std::ranges::stable_sort(sorted, std::greater<>{}, &CountedClass::count);
    double pods = 0;
    for (const CountedClass& one : all) pods += one.count;
    std::vector<double> counts;
    double covered = 0;
    std::size_t with_cards = 0;
    for (const CountedClass& one : sorted) {
      if (one.count == 0 || covered >= cover * pods || with_cards == most) break;
      counts.push_back(one.count);
      covered += one.count;
      with_cards += one.what.cards > 0 ? 1 : 0;
    }
    ASSERT_EQ(workload.classes.size(), counts.size()) << "seed " << seed;
    for (std::size_t i = 0; i < counts.size(); ++i)
      ASSERT_DOUBLE_EQ(workload.classes[i].probability, counts[i] / covered);
  }
}

TEST(ModelPriorProperty, ProbabilitiesAreThoseOfItsTwoConstants) {
  for (std::uint64_t seed = 0; seed < kWorlds * 2; ++seed) {
    RandomCluster random(seed);
    std::vector<Node> nodes;
    for (int i = 0; i < 3; ++i) nodes.push_back(random.node(4));
    const Kinds kinds = kinds_of(nodes);
    std::map<std::string, std::int32_t> most;  // cards of one kind on one node, by model
    for (const Node& node : nodes) {
      std::map<KindId, std::int32_t> cards;
      for (const Card& card : node.cards)
        most[card.model] = std::max(most[card.model], ++cards[kind_of(card)]);
    }
    const Workload before = workload_of(counted(random), 1, 100);
    Workload after = before;
    add_model_prior(kinds, after);
    const bool changes = !before.classes.empty() && most.size() > 1;
    ASSERT_EQ(after.classes.size(), before.classes.size() + (changes ? 2 * most.size() : 0));
    double sum = 0;
    double assumed = 0;
    for (const WeightedClass& one : after.classes) {
      sum += one.probability;
      assumed += one.assumed ? one.probability : 0;
      if (!one.assumed) continue;
      ASSERT_TRUE(one.what.whole);
      ASSERT_TRUE(one.what.cards == 1 || one.what.cards == most.at(one.what.models.at(0)));
    }
    ASSERT_NEAR(sum, before.classes.empty() ? 0 : 1, 1e-9) << "seed " << seed;
    ASSERT_NEAR(assumed, changes ? kPriorOfOneCard + kPriorOfANode : 0, 1e-9) << "seed " << seed;
  }
}

}  // namespace
}  // namespace mgpu::extender
