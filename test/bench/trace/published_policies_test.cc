// The policies that the paper on FGD compares, against results computed by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "bench/trace/policies/measures.h"
#include "bench/trace/policies/policies.h"
#include "extender/placement/place.h"
#include "extender/pricing/price_snapshot.h"
#include "test/support/cluster_text.h"
#include "test/support/ledger_text.h"

namespace mgpu::trace {
namespace {

using extender::holds;
using extender::kScoreMax;
using extender::Ledger;
using extender::MilliCpu;
using extender::Placed;
using extender::PriceSnapshot;
using extender::SearchBudget;
using extender::TargetWorkload;
using test::node_of;
using test::placement_of;
using test::request_of;
using test::share_of;
using test::text_of;

const Policy* const kPublished[] = {&kRandomPolicy, &kDotProd, &kClustering,
                                    &kPacking,      &kBestFit, &kFgd};

Node node_with(const std::string& text, std::int64_t milli_cpu, std::int64_t used = 0) {
  Node node = node_of(text);
  node.allocatable = {MilliCpu(milli_cpu), MiB(1)};
  node.resources_used = {MilliCpu(used), MiB()};
  return node;
}

// A pod in a test.
struct Pod {
  const char* request;  // empty: no cards
  const char* placement;
  std::int64_t milli_cpu = 0;
  std::uint64_t seed = 0;
};

Score score(const Policy& policy, const Node& node, const Pod& pod,
            const PriceSnapshot* price_snapshot = nullptr) {
  const GpuRequest request = request_of(pod.request);
  const PlacementContext context(request, {MilliCpu(pod.milli_cpu), MiB()}, pod.seed,
                                 price_snapshot);
  return policy.score_node(context, node, holds(node, request, placement_of(pod.placement)));
}

// The cards that `policy` takes for a pod that fits.
std::string cards_by(const Policy& policy, const Node& node, const char* text,
                     const PriceSnapshot* price_snapshot = nullptr) {
  const GpuRequest request = request_of(text);
  SearchBudget budget{1'000};
  const auto placed = place(node, PlacementContext(request, {}, 7, price_snapshot), policy, budget);
  return text_of(std::get<Placed>(placed).placement);
}

// Half of the pods request half a card, the others a whole one.
PriceSnapshot halves_and_wholes() {
  PriceSnapshot price_snapshot;
  price_snapshot.workload.classes = {
      {{.cards = 1, .per_card = share_of("50/0")}, 0.5},
      {{.cards = 1, .per_card = share_of("100/0"), .whole = true}, 0.5}};
  price_snapshot.target = TargetWorkload(price_snapshot.workload);
  return price_snapshot;
}

TEST(PublishedPolicies, ScorePodsWithoutCardsToo) {
  for (const Policy* policy : kPublished)
    EXPECT_TRUE(policy->ranks_pods_without_cards) << policy->name;
}

TEST(PublishedPolicies, TakeTheCardWithTheLeastFreeCompute) {
  const Node node = node_of("n: 0[100/1000] 1[40/900 of 1000] 2[30/900 of 1000] 3[30/900 of 1000]");
  for (const Policy* policy : {&kDotProd, &kClustering, &kPacking, &kBestFit, &kFgd}) {
    EXPECT_EQ(cards_by(*policy, node, "30/100"), "2") << policy->name;
    EXPECT_EQ(cards_by(*policy, node, "35/100"), "1") << policy->name;
    EXPECT_EQ(cards_by(*policy, node, "50/100"), "0") << policy->name;
    EXPECT_EQ(cards_by(*policy, node, "30/100x2"), "2,3") << policy->name;
    // Memory only decides what fits.
    EXPECT_EQ(cards_by(*policy, node, "30/950"), "0") << policy->name;
  }
}

TEST(PublishedPolicies, TakeTheFirstOfWholeCards) {
  const PriceSnapshot price_snapshot = halves_and_wholes();
  const Node node = node_of("n: 0[40/1000] 1[0/0 of 1000] 2[100/1000] 3[100/800] 4[100/1000]");
  for (const Policy* policy : {&kDotProd, &kClustering, &kPacking, &kBestFit, &kFgd}) {
    EXPECT_EQ(cards_by(*policy, node, "wholex2", &price_snapshot), "2,3") << policy->name;
  }
}

TEST(PublishedPolicies, CountExpectedPodsAsTaken) {
  const Node node = node_of("n: 0[100/1000 expected=70/1] 1[60/500 of 1000]");
  for (const Policy* policy : {&kDotProd, &kClustering, &kPacking, &kBestFit, &kFgd}) {
    EXPECT_EQ(cards_by(*policy, node, "30/100"), "0") << policy->name;
  }
}

// --- dotprod -------------------------------------------------------------------------------------

TEST(DotProd, PrefersTheLeastProductOfFreeAndRequested) {
  struct {
    std::int64_t free_cpu;
    const char* cards;
    Pod pod;
    Score score;
  } const cases[] = {
      // 100 * (1 - (64/128 * 8/128 + 4/8 * 1/8) / 2) = 100 * (1 - 0.09375 / 2) = 95.3
      {64'000, "0[100/1] 1[100/1] 2[100/1] 3[100/1]", {"whole", "0", 8'000}, 95},
      // 100 * (1 - (128/128 * 128/128 + 8/8 * 8/8) / 2) = 0
      {128'000,
       "0[100/1] 1[100/1] 2[100/1] 3[100/1] 4[100/1] 5[100/1] 6[100/1] 7[100/1]",
       {"wholex8", "0,1,2,3,4,5,6,7", 128'000},
       0},
      // 100 * (1 - (32/128 * 32/128 + 0) / 2) = 96.9
      {32'000, "0[100/1] 1[100/1]", {"", "", 32'000}, 96},
      // 100 * (1 - (0 + 0.5/8 * 0.4/8) / 2) = 99.8
      {16'000, "0[50/1]", {"40/1", "0", 0}, 99},
  };
  for (const auto& test : cases) {
    const Node node = node_with("n: " + std::string(test.cards), test.free_cpu);
    EXPECT_EQ(score(kDotProd, node, test.pod), test.score) << test.pod.request;
  }
}

// --- bestfit -------------------------------------------------------------------------------------

TEST(BestFit, PrefersTheLeastThatIsLeft) {
  struct {
    std::int64_t cpu;
    std::int64_t used;
    const char* cards;
    Pod pod;
    Score score;
  } const cases[] = {
      // 100 * (1 - ((64 - 8)/128 + (4 - 1)/8) / 2) = 59.4
      {96'000, 32'000, "0[100/1] 1[100/1] 2[100/1] 3[100/1]", {"whole", "0", 8'000}, 59},
      // Nothing is left.
      {8'000, 0, "0[100/1] 1[0/0 of 1]", {"whole", "0", 8'000}, 100},
      // 100 * (1 - (0 + (1.3 - 0.3)/8) / 2) = 93.75
      {8'000, 8'000, "0[30/1] 1[100/1]", {"30/0", "0", 0}, 93},
      // 100 * (1 - (30/128 + 2/8) / 2) = 75.8
      {32'000, 0, "0[100/1] 1[100/1]", {"", "", 2'000}, 75},
      // An over-full node has nothing left.
      {8'000, 0, "0[0/0 of 1]", {"", "", 9'000}, 100},
  };
  for (const auto& test : cases) {
    const Node node = node_with("n: " + std::string(test.cards), test.cpu, test.used);
    EXPECT_EQ(score(kBestFit, node, test.pod), test.score) << test.cards;
  }
}

// --- packing -------------------------------------------------------------------------------------

TEST(Packing, PrefersCardsInUseThenNodesInUse) {
  struct {
    const char* cards;
    Pod pod;
    Score score;
  } const cases[] = {
      {"0[100/1] 1[100/1]", {"", ""}, 0},
      // On a free node fewer cards are better.
      {"0[100/1] 1[100/1]", {"30/0", "0"}, 31},
      {"0[100/1]", {"whole", "0"}, 32},
      {"0[100/1] 1[100/1] 2[50/1 unhealthy]", {"30/0", "0"}, 31},
      // It takes one free card, or two.
      {"0[100/1] 1[100/1] 2[40/1]", {"50/0", "0"}, 49},
      {"0[100/1] 1[100/1] 2[40/1]", {"wholex2", "0,1"}, 48},
      {"0[100/1] 1[100/1] 2[40/1]", {"40/0x2", "0,2"}, 49},
      // It shares cards in use: 100 - 45/10, 100 - (45 + 37)/10.
      {"0[100/1] 1[45/1]", {"30/0", "1"}, 96},
      {"0[37/1] 1[45/1]", {"30/0x2", "0,1"}, 92},
  };
  for (const auto& test : cases) {
    const Node node = node_of("n: " + std::string(test.cards));
    EXPECT_EQ(score(kPacking, node, test.pod), test.score) << test.cards << test.pod.request;
  }
}

TEST(Packing, StaysWithinItsBounds) {
  std::string free = "n:";
  std::string used = "n:";
  std::string all = "0";
  for (int i = 0; i < 40; ++i) {
    const std::string index = std::to_string(i);
    free.append(" ").append(index).append("[100/1]");
    used.append(" ").append(index).append("[90/1]");
    if (i > 0) all.append(",").append(index);
  }
  EXPECT_EQ(score(kPacking, node_of(free), {"whole", "0"}), 40);
  EXPECT_EQ(score(kPacking, node_of(free + " 40[1/1]"), {"wholex40", all.c_str()}), 33);
  EXPECT_EQ(score(kPacking, node_of(used), {"10/0x40", all.c_str()}), 50);
}

// --- clustering ----------------------------------------------------------------------------------

struct PlacedPod {
  const char* request;
  const char* cards;
};

Score clustering_score(const std::vector<PlacedPod>& placed, const char* pod,
                       const char* cards = "0[100/1] 1[100/1] 2[100/1] 3[100/1]") {
  Ledger ledger;
  ledger.apply_node(test::facts_of(std::string("n: ") + cards));
  for (std::size_t i = 0; i < placed.size(); ++i) {
    ledger.apply_pod(test::bound_claim(std::to_string(i), "n", placed[i].request, placed[i].cards));
  }
  Score score = 0;
  ledger.reader().read({}, [&](const extender::View& view) {
    score = trace::clustering_score(view, "n", request_of(pod));
  });
  return score;
}

TEST(Clustering, PrefersNodesWithPodsOfTheSameSize) {
  struct {
    std::vector<PlacedPod> placed;
    const char* pod;
    Score score;
  } const cases[] = {
      // Four cards are free: 25 * (8 - 4)/8 = 12.5. With 30 % less it is 13.4, with one card less
      // 15.6, with both less 16.6, with two cards less 18.75.
      {{}, "30/0", 25 + 12},
      {{{"30/0", "0"}}, "30/0", 75 + 13},
      {{{"30/0", "0"}}, "30/0x2", 13},
      {{{"whole", "1"}}, "30/0", 15},
      {{{"whole", "1"}}, "whole", 75 + 15},
      {{{"whole", "1"}}, "wholex2", 15},
      {{{"30/0", "0"}, {"whole", "1"}}, "30/0", 50 + 16},
      {{{"30/0", "0"}, {"whole", "1"}}, "whole", 50 + 16},
      {{{"wholex2", "0,1"}}, "wholex2", 75 + 18},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(clustering_score(test.placed, test.pod), test.score)
        << test.pod << " beside " << test.placed.size();
  }
}

TEST(Clustering, PrefersTheFullerOfTwoWithPodsOfTheSameSize) {
  // 25 * (8 - 1)/8 = 21.9
  EXPECT_EQ(clustering_score({}, "30/0", "0[100/1]"), 25 + 21);
}

TEST(Clustering, HasNoPreferenceForPodsWithoutCards) {
  EXPECT_EQ(score(kClustering, node_of("n: 0[50/1]"), {"", ""}), 0);
}

// --- fgd -----------------------------------------------------------------------------------------

TEST(Fgd, PrefersWhereFragmentationGrowsLeast) {
  const PriceSnapshot price_snapshot = halves_and_wholes();
  struct {
    const char* cards;
    Pod pod;
    Score score;
  } const cases[] = {
      // F 0, then (0 + 700)/2: sigmoid(-0.35) = 0.413
      {"0[100/1] 1[100/1]", {"30/0", "0"}, 41},
      // F 0, then (400 + 400)/2: sigmoid(-0.4) = 0.401
      {"0[100/1] 1[100/1]", {"60/0", "0"}, 40},
      {"0[100/1] 1[100/1]", {"whole", "0"}, 50},
      // F (300 + 300)/2, then 0: sigmoid(0.3) = 0.574
      {"0[30/1] 1[100/1]", {"30/0", "0"}, 57},
      // F (0 + 800)/2, then (300 + 300)/2: sigmoid(0.1) = 0.525
      {"0[80/1] 1[100/1]", {"50/0", "0"}, 52},
      {"0[80/1] 1[100/1]", {"", ""}, 50},
  };
  for (const auto& test : cases) {
    const Node node = node_of("n: " + std::string(test.cards));
    EXPECT_EQ(score(kFgd, node, test.pod, &price_snapshot), test.score)
        << test.cards << test.pod.request;
  }
}

TEST(Fgd, CountsFreeCardsWithoutCpuAsFragmented) {
  PriceSnapshot price_snapshot;
  price_snapshot.workload.classes = {
      {{.resources = {MilliCpu(4'000), MiB()}, .cards = 1, .per_card = share_of("50/0")}, 1}};
  price_snapshot.target = TargetWorkload(price_snapshot.workload);
  const Node node = node_with("n: 0[100/1] 1[100/1]", 16'000, 8'000);
  EXPECT_EQ(score(kFgd, node, {"", "", 4'000}, &price_snapshot), 50);
  // F 0, then 2000: sigmoid(-2) = 0.119
  EXPECT_EQ(score(kFgd, node, {"", "", 5'000}, &price_snapshot), 11);
}

TEST(Fgd, TakesTheCardWhereFragmentationGrowsLeast) {
  const PriceSnapshot price_snapshot = halves_and_wholes();
  // On card 1, 0.3 would be left, which no class can use; on card 2 half a card is left.
  EXPECT_EQ(cards_by(kFgd, node_of("n: 0[100/1] 1[60/1] 2[80/1]"), "30/0", &price_snapshot), "2");
  EXPECT_EQ(cards_by(kBestFit, node_of("n: 0[100/1] 1[60/1] 2[80/1]"), "30/0", &price_snapshot),
            "1");
  EXPECT_EQ(cards_by(kFgd, node_of("n: 0[100/1] 1[30/1] 2[30/1]"), "30/0", &price_snapshot), "1");
}

TEST(Fgd, CountsWhatOtherContainersOfThePodTake) {
  const PriceSnapshot price_snapshot = halves_and_wholes();
  // With both on card 0 nothing is left.
  EXPECT_EQ(cards_by(kFgd, node_of("n: 0[90/1] 1[100/1]"), "50/0 40/0", &price_snapshot), "0 | 0");
}

TEST(Fgd, IsBestFitWithoutAWorkload) {
  const PriceSnapshot nothing;
  const Node node = node_with("n: 0[100/1] 1[40/1]", 16'000);
  for (const PriceSnapshot* price_snapshot :
       {static_cast<const PriceSnapshot*>(nullptr), &nothing}) {
    EXPECT_EQ(score(kFgd, node, {"30/0", "1", 1'000}, price_snapshot),
              score(kBestFit, node, {"30/0", "1", 1'000}));
    EXPECT_EQ(cards_by(kFgd, node, "30/0", price_snapshot), "1");
  }
}

// --- random --------------------------------------------------------------------------------------

TEST(Random, TakesEveryNodeAndCardEquallyOften) {
  const Node nodes[] = {node_of("a: 0[100/1] 1[100/1] 2[100/1]"), node_of("b: 0[100/1]"),
                        node_of("node-0001: 0[100/1]"), node_of("node-0010: 0[100/1]")};
  constexpr int kSeeds = 8'000;
  int taken[4] = {};
  int taken_card[3] = {};
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const GpuRequest request = request_of("30/0");
    const PlacementContext context(request, {}, seed, nullptr);
    int best = 0;
    int best_card = 0;
    for (int i = 1; i < 4; ++i)
      if (kRandomPolicy.score_node(context, nodes[i], {}) >
          kRandomPolicy.score_node(context, nodes[best], {}))
        best = i;
    const auto of_card = [&](int i) {
      return kRandomPolicy.score_card(context, nodes[0],
                                      nodes[0].cards[static_cast<std::size_t>(i)], {}, {});
    };
    for (int i = 1; i < 3; ++i)
      if (of_card(i) > of_card(best_card)) best_card = i;
    ++taken[best];
    ++taken_card[best_card];
  }
  // Six standard deviations: sqrt(8000 * 1/4 * 3/4) = 39, sqrt(8000 * 1/3 * 2/3) = 42.
  for (const int times : taken) EXPECT_NEAR(times, kSeeds / 4, 240);
  for (const int times : taken_card) EXPECT_NEAR(times, kSeeds / 3, 260);
}

TEST(Random, DependsOnlyOnThePodsSeedAndTheName) {
  const Node empty = node_of("n: 0[100/1]");
  const Node full = node_of("n: 0[0/0 of 1]");
  EXPECT_EQ(score(kRandomPolicy, empty, {"", "", 0, 5}),
            score(kRandomPolicy, full, {"", "", 9, 5}));
  std::set<Score> scores;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    scores.insert(score(kRandomPolicy, empty, {"", "", 0, seed}));
    EXPECT_GE(*scores.begin(), 0);
    EXPECT_LE(*scores.rbegin(), kScoreMax);
  }
  EXPECT_GT(scores.size(), 98u);
}

// --- common measures -----------------------------------------------------------------------------

TEST(Hundredths, CutAndStayWithinTheirRange) {
  EXPECT_EQ(hundredths(0.999), 99);
  EXPECT_EQ(hundredths(-0.999), -99);
  EXPECT_EQ(hundredths(0.5), 50);
  EXPECT_EQ(hundredths(1e300), kScoreMax);
  EXPECT_EQ(hundredths(-1e300), -kScoreMax);
}

TEST(PublishedPolicies, TakeNodesOfAnySize) {
  Node node = node_of("n: 0[100/1]");
  node.allocatable = {MilliCpu(MilliCpu::kMax), MiB(MiB::kMax)};
  const PriceSnapshot price_snapshot = halves_and_wholes();
  for (const Policy* policy : kPublished) {
    for (const Pod& pod : {Pod{"", "", MilliCpu::kMax}, Pod{"whole", "0", 1}, Pod{"", ""}}) {
      const Score found = score(*policy, node, pod, &price_snapshot);
      EXPECT_LE(std::abs(found), std::int64_t{1} << 56) << policy->name;
    }
    EXPECT_NO_FATAL_FAILURE(score(*policy, Node{}, {"", ""}, &price_snapshot));
  }
}

}  // namespace
}  // namespace mgpu::trace
