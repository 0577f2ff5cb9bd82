// The value of a node and its packing, compared with an exhaustive search of all packings, on small
// nodes: one to three cards of one kind, two to four classes of pods.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "extender/pricing/packing.h"
#include "extender/pricing/prices.h"
#include "test/support/price_snapshot_text.h"
#include "test/support/random_cluster.h"

namespace mgpu::extender {
namespace {

using test::kinds_of;
using test::RandomCluster;

constexpr std::uint64_t kWorlds = 120;
constexpr float kRounding = 2e-3F;

struct World {
  Node node;
  Workload workload;
  Prices prices;
};

// Sizes are a quarter of a card or more, so that all packings of a card can be enumerated.
PodClass class_of(RandomCluster& random, int cards) {
  PodClass what;
  what.resources = {MilliCpu(500 * random.number(9)), MiB(512 * random.number(9))};
  what.cards = random.one_in(4) ? 1 + random.number(cards) : 1;
  what.whole = what.cards > 1 || random.one_in(4);
  what.per_card = what.whole
                      ? Share{kWholeCard, MiB{}}
                      : Share{Percent(25 + 5 * random.number(14)), MiB(100 * random.number(8))};
  return what;
}

Workload workload_with(RandomCluster& random, int cards, bool sizes_once) {
  std::vector<CountedClass> counted;
  std::map<std::pair<std::int32_t, Percent>, int> seen;
  const int classes = 2 + random.number(3);
  for (int i = 0; i < classes; ++i) {
    const PodClass what = class_of(random, cards);
    if (sizes_once && seen[{what.cards, what.per_card.core}]++ > 0) continue;
    counted.push_back({what, 1.0 + random.number(9)});
  }
  return workload_of(std::move(counted), 1, 100);
}

struct Kindness {
  bool sizes_once = false;  // no two classes request the same part of the same number of cards
  bool plenty =
      false;  // neither CPU, main memory nor card memory is short, and card memory has no price
};

World world_of(std::uint64_t seed, const Kindness& kindness = {}) {
  RandomCluster random(seed);
  World world;
  const int cards = 1 + random.number(3);
  for (int i = 0; i < cards; ++i) {
    Card card;
    card.index = CardIndex(i);
    card.model = "A100";
    card.capacity = {kWholeCard, MiB(1000)};
    if (random.one_in(2)) card.used = {Percent(5 * random.number(21)), MiB(100 * random.number(8))};
    world.node.cards.push_back(card);
  }
  world.node.allocatable = {MilliCpu(500 * (1 + random.number(20))),
                            MiB(512 * (1 + random.number(20)))};
  world.workload = workload_with(random, cards, kindness.sizes_once);
  if (kindness.plenty) {
    world.node.allocatable = {};
    for (Card& card : world.node.cards) card.used.memory = MiB{};
    for (WeightedClass& one : world.workload.classes) one.what.per_card.memory = MiB{};
  }
  for (const WeightedClass& one : world.workload.classes) {
    const double gpus = one.what.cards * static_cast<double>(one.what.per_card.core.value()) / 100;
    const bool priced = random.one_in(2);
    world.prices.supply.push_back(priced ? static_cast<float>(gpus * random.number(10) / 10)
                                         : 0.0F);
  }
  return world;
}

struct Priced {
  explicit Priced(const World& world)
      : kinds(kinds_of({world.node})),
        tables(world.workload, kinds, world.prices),
        room(room_after(world.node, kinds, {}, {})) {}
  Kinds kinds;
  PriceTables tables;
  NodeRoom room;
};

// Every packing of pods into what is free of the node. A pod of several cards takes whole free
// ones; all of which are equal.
class Exhaustive {
 public:
  // `worth` of each class in GPUs.
  Exhaustive(const World& world, std::vector<double> worth) : world_(world), worth_(worth) {
    for (const Card& card : world.node.cards) free_.push_back(card.room());
    const bool known = !world.node.allocatable.zero();
    resources_ = known ? world.node.resources_left()
                       : NodeResources{MilliCpu(1'000'000'000), MiB(1'000'000'000)};
  }

  double best() {
    pack(0, 0, 0);
    return best_;
  }

 private:
  // Pods of the classes from `at` on; of one class, on the cards from `card` on.
  void pack(std::size_t at, std::size_t card, double sum) {
    best_ = std::max(best_, sum);
    for (; at < world_.workload.classes.size(); ++at, card = 0) {
      const PodClass& what = world_.workload.classes[at].what;
      if (what.cards == 0 || !what.resources.fits_in(resources_)) continue;
      resources_ -= what.resources;
      what.cards > 1 ? pack_several(at, what, sum) : pack_one(at, card, what, sum);
      resources_ += what.resources;
    }
  }

  void pack_one(std::size_t at, std::size_t from, const PodClass& what, double sum) {
    for (std::size_t card = from; card < free_.size(); ++card) {
      const Share share =
          what.whole ? Share{kWholeCard, world_.node.cards[card].capacity.memory} : what.per_card;
      if (!share.fits_in(free_[card])) continue;
      free_[card] -= share;
      pack(at, card, sum + worth_[at]);
      free_[card] += share;
    }
  }

  void pack_several(std::size_t at, const PodClass& what, double sum) {
    std::vector<std::size_t> taken;
    for (std::size_t card = 0; card < free_.size(); ++card)
      if (free_[card] == world_.node.cards[card].capacity) taken.push_back(card);
    if (std::cmp_less(taken.size(), what.cards)) return;
    taken.resize(static_cast<std::size_t>(what.cards));
    for (const std::size_t card : taken) free_[card] = {};
    pack(at, 0, sum + worth_[at]);
    for (const std::size_t card : taken) free_[card] = world_.node.cards[card].capacity;
  }

  const World& world_;
  std::vector<double> worth_;
  std::vector<Share> free_;
  NodeResources resources_;
  double best_ = 0;
};

// g_c - s_c, and where several classes of one card are equally large, minus what the soft maximum
// may subtract: t * ln(its part of their probability).
std::vector<double> net_worth(const World& world, bool soft) {
  const auto& classes = world.workload.classes;
  std::vector<double> worth;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const PodClass& what = classes[i].what;
    double of_size = 0;
    for (const WeightedClass& other : classes)
      if (other.what.cards == 1 && other.what.per_card.core == what.per_card.core)
        of_size += other.probability;
    worth.push_back(what.cards * static_cast<double>(what.per_card.core.value()) / 100 -
                    static_cast<double>(world.prices.supply[i]));
    if (soft && what.cards == 1)
      worth.back() += static_cast<double>(kSoftness) * std::log(classes[i].probability / of_size);
  }
  return worth;
}

// The bound of prices.h: no packing is worth more than the value, except for the softness.
TEST(PricingProperty, TheValueIsABoundOfEveryPacking) {
  std::size_t tight = 0;
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    const World world = world_of(seed);
    const double best = Exhaustive(world, net_worth(world, true)).best();
    const double value = static_cast<double>(Priced(world).tables.value(Priced(world).room));
    ASSERT_GE(value + static_cast<double>(kRounding), best) << "seed " << seed;
    tight += value < best + 0.02 ? 1 : 0;
  }
  // Where only compute is short, the bound is tight.
  EXPECT_GT(tight, kWorlds / 4);
}

TEST(PricingProperty, WhereOnlyComputeIsShortTheValueIsTheBestPacking) {
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    const World world = world_of(seed, {.sizes_once = true, .plenty = true});
    const double best = Exhaustive(world, net_worth(world, false)).best();
    const Priced priced(world);
    ASSERT_NEAR(static_cast<double>(priced.tables.value(priced.room)), best, 1e-3)
        << "seed " << seed;
  }
}

TEST(PricingProperty, WhereOnlyComputeIsShortThePackingIsABestOne) {
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    const World world = world_of(seed, {.sizes_once = true, .plenty = true});
    const auto worth = net_worth(world, false);
    const Priced priced(world);
    Packing packing(priced.tables);
    packing.add(priced.room);
    const auto& pods = packing.pods();
    double sum = 0;
    for (std::size_t i = 0; i < pods.size(); ++i) sum += pods[i] * worth[i];
    ASSERT_NEAR(sum, Exhaustive(world, worth).best(), 1e-3) << "seed " << seed;
  }
}

// A packing is that of the prices with the best bound: at some prices of CPU, memory and card
// memory the value is its worth plus the price of the room.
TEST(PricingProperty, ThePackingIsThatOfThePricesWithTheBestBound) {
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    World world = world_of(seed, {.sizes_once = true});
    world.node.cards.resize(1);
    world.node.cards[0].used += {Percent(world.node.cards[0].used.zero() ? 5 : 0), MiB{}};
    const Priced priced(world);
    Packing packing(priced.tables);
    packing.add(priced.room);
    const auto& pods = packing.pods();
    const float value = priced.tables.value(priced.room);
    float nearest = 1e6F;
    for (const float cpu : kCpuPrices) {
      for (const float memory : kMemoryPrices) {
        for (const float card_memory : kCardMemoryPrices) {
          float sum = cpu * priced.room.cores + memory * priced.room.gib;
          for (const CardRoom& card : priced.room.all()) sum += card_memory * card.memory;
          for (std::size_t i = 0; i < pods.size(); ++i) {
            const PricedClass& one = priced.tables.classes()[i];
            const float paid = world.prices.supply[i] + cpu * one.cores + memory * one.gib +
                               card_memory * one.card_memory[1];
            if (pods[i] > 0) sum += static_cast<float>(pods[i]) * (one.gpus - paid);
          }
          nearest = std::min(nearest, std::abs(sum - value));
        }
      }
    }
    ASSERT_LT(nearest, kRounding) << "seed " << seed;
  }
}

// Similar classes share pods, and a class without a worth is not packed.
TEST(PricingProperty, APackingTakesNoMoreThanTheFreeCompute) {
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    const World world = world_of(seed);
    const Priced priced(world);
    Packing packing(priced.tables);
    packing.add(priced.room);
    double percent = 0;
    for (const CardRoom& card : priced.room.all()) percent += card.percent;
    const auto& pods = packing.pods();
    double taken = 0;
    for (std::size_t i = 0; i < pods.size(); ++i) {
      ASSERT_GE(pods[i], 0) << "seed " << seed;
      taken += pods[i] * 100 * static_cast<double>(priced.tables.classes()[i].gpus);
    }
    ASSERT_LE(taken, percent + 0.1) << "seed " << seed;
  }
}

TEST(PricingProperty, SeveralNodesPackTheSumOfEach) {
  for (std::uint64_t seed = 0; seed < kWorlds / 5; ++seed) {
    const World world = world_of(seed);
    const Priced priced(world);
    Packing once(priced.tables);
    once.add(priced.room);
    Packing thrice(priced.tables);
    for (int i = 0; i < 3; ++i) thrice.add(priced.room);
    const auto& one = once.pods();
    const auto& three = thrice.pods();
    for (std::size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(three[i], 3 * one[i], 1e-3);
  }
}

NodeRoom with_more(NodeRoom room, RandomCluster& random) {
  room.cores += static_cast<float>(random.number(8));
  room.gib += static_cast<float>(random.number(8));
  for (std::size_t i = 0; i < room.count; ++i) {
    CardRoom& card = room.cards[i];
    card.percent = static_cast<std::uint8_t>(std::min(100, card.percent + 10 * random.number(4)));
    card.memory = std::min(1.0F, card.memory + 0.1F * static_cast<float>(random.number(4)));
  }
  return room;
}

TEST(PricingProperty, MoreRoomIsNeverWorthLess) {
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    const Priced priced(world_of(seed));
    RandomCluster random(seed + kWorlds);
    const float before = priced.tables.value(priced.room);
    ASSERT_GE(before, -kRounding) << "seed " << seed;
    ASSERT_GE(priced.tables.value(with_more(priced.room, random)), before - kRounding)
        << "seed " << seed;
  }
}

TEST(PricingProperty, AHigherSupplyPriceNeverMakesRoomWorthMore) {
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    World world = world_of(seed);
    const Priced cheap(world);
    RandomCluster random(seed + kWorlds);
    for (float& price : world.prices.supply) price += 0.05F * static_cast<float>(random.number(4));
    const Priced dear(world);
    ASSERT_LE(dear.tables.value(dear.room), cheap.tables.value(cheap.room) + kRounding)
        << "seed " << seed;
  }
}

// For each pair of prices the value is a sum over cards, and a minimum of sums is no less than the
// sum of the minima; free cards together have at least the sum of their single values.
TEST(PricingProperty, TwoNodesInOneHaveAtLeastTheSumOfTheirValues) {
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    const Priced priced(world_of(seed));
    RandomCluster random(seed + kWorlds);
    const NodeRoom other = with_more(priced.room, random);
    NodeRoom both = priced.room;
    both.cores += other.cores;
    both.gib += other.gib;
    for (const CardRoom& card : other.all()) both.cards[both.count++] = card;
    ASSERT_GE(priced.tables.value(both) + kRounding,
              priced.tables.value(priced.room) + priced.tables.value(other))
        << "seed " << seed;
  }
}

TEST(PricingProperty, TheValueIsTheLeastOfAllPairsOfPrices) {
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    const Priced priced(world_of(seed));
    PairRow sums;
    priced.tables.values(priced.room, sums);
    ASSERT_EQ(priced.tables.value(priced.room), *std::ranges::min_element(sums));
    // The first pair has zero prices of CPU and memory: it is the bound of compute alone.
    NodeRoom bare = priced.room;
    bare.cores = bare.gib = 0;
    PairRow of_cards;
    priced.tables.values(bare, of_cards);
    for (std::size_t q = 0; q < kPricePairs; ++q) {
      const float resources = kCpuPrices[q / kMemoryPrices.size()] * priced.room.cores +
                              kMemoryPrices[q % kMemoryPrices.size()] * priced.room.gib;
      ASSERT_NEAR(sums[q], of_cards[q] + resources, kRounding) << "seed " << seed << " pair " << q;
      ASSERT_LE(of_cards[q], of_cards[0] + kRounding) << "seed " << seed << " pair " << q;
    }
  }
}

}  // namespace
}  // namespace mgpu::extender
