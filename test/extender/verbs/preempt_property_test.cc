// preempt against a model of kube-scheduler's proposals and a brute force over all sets of victims.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "extender/ledger/disruption_budgets.h"
#include "extender/placement/limits.h"
#include "extender/placement/place.h"
#include "test/extender/verbs/verbs_world.h"
#include "test/support/random_cluster.h"

namespace mgpu::extender {
namespace {

using mgpu::test::at_ms;
using mgpu::test::RandomCluster;
using test::PodText;

constexpr std::uint64_t kProposals = 3'000;
constexpr int kPreemptorPriority = 9;
constexpr const char* kNode = "n1";

// A pod on the node, with the amounts that kube-scheduler adds up.
struct OnNode {
  std::string uid;
  int priority = 0;
  bool breaks_budget = false;
  int core = 0;  // zero: a pod without cards
  int card = 0;
  int memory = 0;  // of the card
  NodeResources resources{};
};

struct Sums {
  std::int64_t core = 0;
  std::int64_t card_memory = 0;
  std::int64_t pods = 0;
  NodeResources resources;

  void add(const OnNode& pod) {
    core += pod.core;
    card_memory += pod.memory;
    resources += pod.resources;
    ++pods;
  }
  bool within(const Sums& capacity) const {
    return core <= capacity.core && card_memory <= capacity.card_memory && pods <= capacity.pods &&
           resources.fits_in(capacity.resources);
  }
};

using Gone = std::uint32_t;  // bit i: pods[i] is evicted

struct NodeWorld {
  int cards = 0;
  Sums capacity;
  std::vector<OnNode> pods;
  OnNode preemptor;

  bool may_evict(std::size_t i) const { return pods[i].priority < kPreemptorPriority; }

  bool sums_suffice(Gone gone) const {
    Sums used;
    used.add(preemptor);
    for (std::size_t i = 0; i < pods.size(); ++i)
      if ((gone >> i & 1) == 0) used.add(pods[i]);
    return used.within(capacity);
  }

  bool cards_suffice(Gone gone) const {
    for (int card = 0; card < cards; ++card) {
      int core = preemptor.core;
      int memory = preemptor.memory;
      for (std::size_t i = 0; i < pods.size(); ++i) {
        if ((gone >> i & 1) != 0 || pods[i].core == 0 || pods[i].card != card) continue;
        core += pods[i].core;
        memory += pods[i].memory;
      }
      if (core <= 100 && memory <= 1000) return true;
    }
    return false;
  }

  bool suffices(Gone gone) const { return sums_suffice(gone) && cards_suffice(gone); }
};

NodeResources random_resources(RandomCluster& random, int most) {
  return {MilliCpu(random.number(most)), MiB(random.number(most))};
}

NodeWorld node_world(std::uint64_t seed) {
  RandomCluster random(seed);
  NodeWorld world;
  world.cards = 1 + random.number(3);
  std::vector<int> core_left(static_cast<std::size_t>(world.cards), 100);
  const int count = 2 + random.number(8);
  for (int i = 0; i < count; ++i) {
    OnNode pod{.uid = "p" + std::to_string(i)};
    pod.priority = random.one_in(6) ? kPreemptorPriority : random.number(3);
    pod.resources = random_resources(random, 5);
    pod.card = random.number(world.cards);
    const int core = 10 * (2 + random.number(8));
    int& left = core_left[static_cast<std::size_t>(pod.card)];
    if (!random.one_in(4) && core <= left) {
      left -= core;
      pod.core = core;
      pod.memory = 100;
      pod.breaks_budget = random.one_in(4);
    }
    world.pods.push_back(pod);
  }
  world.preemptor = {
      .uid = "uid-p", .priority = kPreemptorPriority, .core = 10 * (2 + random.number(9))};
  world.preemptor.memory = 100;
  world.preemptor.resources = random_resources(random, 6);
  Sums used;
  for (const OnNode& pod : world.pods) used.add(pod);
  world.capacity = used;
  world.capacity.core = std::int64_t{100} * world.cards;
  world.capacity.card_memory = std::int64_t{1000} * world.cards;
  world.capacity.pods += random.number(2);
  // Never zero, which means that it is not known.
  world.capacity.resources +=
      NodeResources{MilliCpu(1 + random.number(3)), MiB(1 + random.number(3))};
  return world;
}

// SelectVictimsOnNode of kube-scheduler with the sums as its only filter. Empty where it does not
// propose the node.
std::optional<Gone> proposed_by_kube_scheduler(const NodeWorld& world) {
  if (world.sums_suffice(0)) return std::nullopt;
  std::vector<std::size_t> potential;
  for (std::size_t i = 0; i < world.pods.size(); ++i)
    if (world.may_evict(i)) potential.push_back(i);
  Gone gone = 0;
  for (const std::size_t i : potential) gone |= Gone{1} << i;
  if (!world.sums_suffice(gone)) return std::nullopt;
  // Those that violate a budget are restored first, then the more important ones.
  std::ranges::stable_sort(potential, [&](std::size_t a, std::size_t b) {
    const auto key = [&](std::size_t i) {
      return std::tuple(!world.pods[i].breaks_budget, -world.pods[i].priority);
    };
    return key(a) < key(b);
  });
  for (const std::size_t i : potential)
    if (world.sums_suffice(gone & ~(Gone{1} << i))) gone &= ~(Gone{1} << i);
  return gone;
}

// Violations, highest priority, number and sum of priorities of the victims with cards.
using VictimsCost = std::tuple<int, int, int, int>;

VictimsCost cost_of_holders(const NodeWorld& world, Gone gone) {
  VictimsCost cost{0, INT32_MIN, 0, 0};
  auto& [violations, highest, number, sum] = cost;
  for (std::size_t i = 0; i < world.pods.size(); ++i) {
    const OnNode& pod = world.pods[i];
    if ((gone >> i & 1) == 0 || pod.core == 0) continue;
    violations += pod.breaks_budget ? 1 : 0;
    highest = std::max(highest, pod.priority);
    ++number;
    sum += pod.priority;
  }
  return cost;
}

// The least cost of the pods with cards that suffice together with the proposed pods without cards.
std::optional<VictimsCost> least_cost_with(const NodeWorld& world, Gone proposed) {
  Gone fixed = 0;
  Gone free = 0;
  for (std::size_t i = 0; i < world.pods.size(); ++i) {
    if (world.pods[i].core == 0) fixed |= proposed & Gone{1} << i;
    if (world.pods[i].core != 0 && world.may_evict(i)) free |= Gone{1} << i;
  }
  std::optional<VictimsCost> least;
  for (Gone some = free;; some = (some - 1) & free) {
    if (world.suffices(some | fixed)) {
      const VictimsCost cost = cost_of_holders(world, some);
      if (!least || cost < *least) least = cost;
    }
    if (some == 0) return least;
  }
}

class PreemptWorld {
 public:
  explicit PreemptWorld(const NodeWorld& world) : world_(world) {
    NodeFacts facts;
    facts.name = NodeName(kNode);
    for (int card = 0; card < world.cards; ++card)
      facts.cards.push_back({.index = CardIndex(card),
                             .uuid = CardUuid("GPU-" + std::to_string(card)),
                             .model = "V100",
                             .memory = MiB(1000)});
    facts.allocatable = world.capacity.resources;
    facts.pods_allowed = world.capacity.pods;
    ledger_.apply_node(std::move(facts));
    for (const OnNode& pod : world.pods) add(pod);
    budgets_events_.on_event(
        {kube::WatchEvent::Kind::kApply,
         R"({"metadata":{"namespace":"default","name":"keep"},"spec":{"selector":{"matchLabels":)"
         R"({"keep":"yes"}}},"status":{"disruptionsAllowed":0}})"});
  }

  std::optional<Gone> preempt_for(Gone proposed) {
    NodeVictims victims{NodeName(kNode), {}, 0};
    for (std::size_t i = 0; i < world_.pods.size(); ++i)
      if ((proposed >> i & 1) != 0) victims.victims.push_back(PodUid(world_.pods[i].uid));
    const OnNode& pod = world_.preemptor;
    const std::string resources = R"("overhead":{"cpu":")" +
                                  std::to_string(pod.resources.cpu.value()) + R"(m","memory":")" +
                                  std::to_string(pod.resources.memory.value()) + "Mi\"},";
    const auto args = read_preemption_args(
        R"({"Pod":)" +
        test::pod_json({.requests = {std::to_string(pod.core) + "/" + std::to_string(pod.memory)},
                        .priority = kPreemptorPriority,
                        .spec = resources}) +
        "}");
    const auto answer = preempt({args->pod, {victims}}, context_, at_ms(0));
    if (answer.empty()) return std::nullopt;
    Gone gone = 0;
    for (const PodUid& uid : answer.front().victims)
      gone |= Gone{1} << static_cast<unsigned>(std::stoi(uid.str().substr(1)));
    return gone;
  }

 private:
  void add(const OnNode& pod) {
    if (pod.core == 0) {
      ledger_.apply_non_gpu({PodUid(pod.uid), NodeName(kNode), pod.resources});
      return;
    }
    Claim claim = mgpu::test::bound_claim(
        pod.uid, kNode, std::to_string(pod.core) + "/" + std::to_string(pod.memory),
        std::to_string(pod.card));
    claim.priority = pod.priority;
    claim.resources = pod.resources;
    if (pod.breaks_budget) claim.labels = {{"keep", "yes"}};
    ledger_.apply_pod(std::move(claim));
  }

  const NodeWorld& world_;
  Ledger ledger_;
  DisruptionBudgets budgets_;
  kube::ObjectEvents<kube::PodDisruptionBudget> budgets_events_{budgets_.consumer()};
  VerbOptions options_ = [] {
    VerbOptions options = test::options_of();
    options.min_memory = MiB(1);
    return options;
  }();
  CurrentPrices prices_;
  const VerbContext context_{options_, ledger_, budgets_, prices_};
};

void expect_sufficient_and_minimal(const NodeWorld& world, Gone answer) {
  EXPECT_NE(answer, 0U);
  EXPECT_TRUE(world.suffices(answer));
  for (std::size_t i = 0; i < world.pods.size(); ++i) {
    if ((answer >> i & 1) == 0) continue;
    EXPECT_TRUE(world.may_evict(i)) << i;
    EXPECT_FALSE(world.suffices(answer & ~(Gone{1} << i))) << "not needed: " << i;
  }
}

TEST(PreemptProperty, TheVictimsSufficeAndEachIsNeeded) {
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 0; seed < kProposals; ++seed) {
    const NodeWorld world = node_world(seed);
    const auto proposed = proposed_by_kube_scheduler(world);
    if (!proposed) continue;
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto answer = PreemptWorld(world).preempt_for(*proposed);
    const auto least = least_cost_with(world, *proposed);
    ASSERT_EQ(answer.has_value(), least.has_value());
    if (!answer) {
      ++seen["left out"];
      continue;
    }
    expect_sufficient_and_minimal(world, *answer);
    if (world.cards_suffice(*proposed)) {
      EXPECT_EQ(*answer, *proposed);
      ++seen["stands"];
      continue;
    }
    EXPECT_EQ(cost_of_holders(world, *answer), *least);
    ++seen[(*answer & *proposed) == *proposed ? "extended" : "replaced"];
  }
  for (const char* const kind : {"stands", "extended", "replaced", "left out"})
    EXPECT_GT(seen[kind], 5) << kind;
}

}  // namespace
}  // namespace mgpu::extender
