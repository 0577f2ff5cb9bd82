#include "extender/placement/place.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "common/contract/limits.h"
#include "extender/placement/limits.h"
#include "extender/placement/policies/policies.h"
#include "test/support/cluster_text.h"

namespace mgpu::extender {
namespace {

using test::node_of;
using test::request_of;
using test::text_of;

std::optional<Reason> reason_of(const std::string& node, const GpuRequest& request) {
  SearchBudget budget{kPlacementStepsMax};
  return why_not(node_of(node), request, budget);
}

std::string text_of_reason(const std::optional<Reason>& reason) {
  return std::string(reason ? sentence(*reason) : "fits");
}

// The cards, or the reason's sentence.
std::string placed(const std::string& node, const std::string& request, const Policy& policy) {
  SearchBudget budget{kPlacementStepsMax};
  const auto result = place(node_of(node), request_of(request), policy, budget);
  if (const auto* reason = std::get_if<Reason>(&result)) return std::string(sentence(*reason));
  const auto& found = std::get<Placed>(result);
  return text_of(found.placement) + (found.beside_expected ? "" : " on expected");
}

struct FitCase {
  const char* node;
  const char* request;
  std::optional<Reason> reason;
};

void expect_reasons(std::initializer_list<FitCase> cases) {
  for (const auto& test : cases) {
    EXPECT_EQ(text_of_reason(reason_of(test.node, request_of(test.request))),
              text_of_reason(test.reason))
        << test.node << " <- " << test.request;
  }
}

TEST(WhyNot, SharesFitWhereOneCardHasRoomInBothDimensions) {
  expect_reasons({
      {"n: 0[100/1000]", "30/300", std::nullopt},
      {"n: 0[30/300 of 1000]", "30/300", std::nullopt},
      {"n: 0[29/300 of 1000]", "30/300", Reason::kCore},
      {"n: 0[30/299 of 1000]", "30/300", Reason::kMemory},
      {"n: 0[29/299 of 1000]", "30/300", Reason::kCore},
      // Enough in sum, but on no single card.
      {"n: 0[20/1000 of 1000] 1[20/1000 of 1000]", "30/300", Reason::kCore},
      {"n: 0[100/200 of 1000] 1[100/200 of 1000]", "30/300", Reason::kMemory},
      {"n: 0[20/1000 of 1000] 1[100/200 of 1000]", "30/300", Reason::kCoreAndMemory},
      {"n: 0[20/1000 of 1000] 1[100/200 of 1000] 2[30/300 of 1000]", "30/300", std::nullopt},
      // An over-full card is full.
      {"n: 0[100/1000 used=130/10]", "1/1", Reason::kCore},
      {"n: 0[100/1000 used=10/1300]", "1/1", Reason::kMemory},
      // All compute of a card, but less than its memory.
      {"n: 0[100/1000]", "100/300", std::nullopt},
      {"n: 0[99/1000 of 1000]", "100/300", Reason::kCore},
  });
}

TEST(WhyNot, SeveralCardsMustBeDistinct) {
  expect_reasons({
      {"n: 0[100/1000] 1[100/1000]", "30/300x2", std::nullopt},
      {"n: 0[100/1000]", "30/300x2", Reason::kTooFewCards},
      {"n: 0[100/1000] 1[20/1000 of 1000]", "30/300x2", Reason::kCore},
      {"n: 0[100/1000] 1[20/1000 of 1000] 2[30/300 of 1000]", "30/300x2", std::nullopt},
  });
}

TEST(WhyNot, WholeCardsMustBeEmpty) {
  expect_reasons({
      {"n: 0[100/1000] 1[100/2000]", "wholex2", std::nullopt},
      {"n: 0[99/999 of 1000]", "whole", Reason::kCore},
      {"n: 0[100/999 of 1000]", "whole", Reason::kMemory},
      {"n: 0[99/1000 of 1000] 1[100/999 of 1000]", "whole", Reason::kCoreAndMemory},
      {"n: 0[100/1000] 1[99/999 of 1000]", "wholex2", Reason::kCore},
  });
}

TEST(WhyNot, ReportsTheFirstReasonThatApplies) {
  expect_reasons({
      {"n:", "30/300", Reason::kNoCards},
      {"n: 0[100/1000]", "wholex2", Reason::kTooFewCards},
      {"n: 0[100/1000 unhealthy]", "30/300", Reason::kCardsUnhealthy},
      {"n: 0[100/1000 unhealthy] 1[10/0 of 1000]", "30/300", Reason::kCore},
      {"n: 0[100/1000 unhealthy] 1[100/1000]", "30/300x2", Reason::kCardsUnhealthy},
      {"n: 0[100/1000 cordoned]", "30/300", Reason::kCardsCordoned},
      {"n: 0[100/1000 cordoned] 1[100/1000]", "30/300x2", Reason::kCardsCordoned},
      {"n: 0[100/1000 cordoned unhealthy]", "30/300", Reason::kCardsUnhealthy},
      {"n: 0[100/1000 cordoned]", "30/300 60/300", Reason::kCardsCordoned},
      {"n: 0[100/1000 cordoned] 1[10/0 of 1000]", "30/300", Reason::kCore},
      {"n: 0[100/1000] 1[100/200]", "30/1001", Reason::kCardsTooSmall},
      {"n: 0[100/1000 unhealthy] 1[100/200]", "30/300", Reason::kCardsTooSmall},
      {"n: 0[100/1000] 1[100/200]", "30/300x2", Reason::kCardsTooSmall},
      {"n: 0[100/1000 uncertain]", "30/300", Reason::kCardsUncertain},
      {"n: 0[100/200 uncertain]", "30/300", Reason::kCardsTooSmall},
      {"n: 0[100/1000 uncertain] 1[10/0 of 1000]", "30/300", Reason::kCardsUncertain},
      // Uncertain or not, the card has no room.
      {"n: 0[10/1000 of 1000 uncertain] 1[10/1000 of 1000]", "30/300", Reason::kCore},
  });
}

TEST(WhyNot, ContainersOfAPodTakeRoomFromEachOther) {
  expect_reasons({
      {"n: 0[100/1000]", "60/600 40/400", std::nullopt},
      {"n: 0[100/1000]", "60/600 41/400", Reason::kContainersTooLarge},
      {"n: 0[100/1000]", "60/600 40/401", Reason::kContainersTooLarge},
      {"n: 0[100/1000] 1[100/1000]", "60/600 41/400", std::nullopt},
      {"n: 0[90/900 of 1000]", "60/600 40/400", Reason::kTogether},
      {"n: 0[100/1000] 1[100/1000]", "whole 50/500x2", Reason::kContainersTooLarge},
      {"n: 0[100/1000] 1[100/1000] 2[100/1000]", "whole 50/500x2", std::nullopt},
      {"n: 0[100/1000] 1[100/1000] 2[99/999 of 1000]", "whole 50/500x2", std::nullopt},
      {"n: 0[100/1000] 1[100/1000] 2[40/999 of 1000]", "whole 50/500x2", Reason::kTogether},
      // One container's own reason comes first.
      {"n: 0[20/1000 of 1000]", "30/300 10/100", Reason::kCore},
      {"n: 0[100/1000]", "30/2000 10/100", Reason::kCardsTooSmall},
      {"n: 0[20/1000 of 1000]", "90/300 80/100", Reason::kContainersTooLarge},
      {"n: 0[100/200 of 1000] 1[20/1000 of 1000]", "30/100 50/300", Reason::kCoreAndMemory},
      // Together they need the uncertain card.
      {"n: 0[100/1000] 1[100/1000 uncertain]", "60/600 60/600", Reason::kCardsUncertain},
      {"n: 0[100/1000] 1[10/1000 of 1000 uncertain]", "60/600 60/600", Reason::kTogether},
      {"n: 0[100/1000] 1[100/1000 unhealthy]", "60/600 60/600", Reason::kContainersTooLarge},
  });
}

// A greedy choice of cards fails on these.
TEST(WhyNot, FindsTheOnlyPacking) {
  expect_reasons({
      // 50+50, 40+30+30; the largest first onto the first card, the next beside it.
      {"n: 0[100/1000] 1[100/1000]", "50/0 50/0 40/0 30/0 30/0", std::nullopt},
      // 60+40 and 50+30+20.
      {"n: 0[100/1000] 1[100/1000]", "60/0 50/0 40/0 30/0 20/0", std::nullopt},
      // 45+35+20 and 40+30+30: first fit gives 45+40.
      {"n: 0[100/1000] 1[100/1000]", "45/0 40/0 35/0 30/0 30/0 20/0", std::nullopt},
      // The first sidecar would run beside the init container, its equal after it does not: only
      // 0: init, second; 1: first; 2 and 3: 45+30+15 and 40+30+20.
      {"n: 0[95/10 of 10] 1[50/10 of 10] 2[90/1000 of 1000] 3[90/1000 of 1000]",
       "side:40/1 init:95/1 side:40/1 45/100 40/100 30/100 30/100 20/100 15/100", std::nullopt},
      // Compute against memory.
      {"n: 0[100/1000] 1[100/1000]", "90/100 80/200 10/900 20/800", std::nullopt},
      {"n: 0[100/1000] 1[100/1000]", "90/100 80/200 10/900 20/801", Reason::kContainersTooLarge},
  });
}

TEST(WhyNot, InitContainersCountByTheKubernetesRule) {
  expect_reasons({
      {"n: 0[80/800 of 1000]", "init:80/800 30/300", std::nullopt},
      {"n: 0[79/800 of 1000]", "init:80/800 30/300", Reason::kCore},
      {"n: 0[100/1000]", "side:20/200 init:80/800 80/800", std::nullopt},
      {"n: 0[100/1000]", "side:20/200 init:81/800 80/800", Reason::kContainersTooLarge},
      {"n: 0[100/1000]", "init:81/800 side:20/200 80/800", std::nullopt},
      {"n: 0[100/1000]", "init:whole whole", std::nullopt},
      {"n: 0[100/1000]", "side:whole whole", Reason::kContainersTooLarge},
  });
}

struct SelectorCase {
  const char* what;
  CardSelector selector;
  std::optional<Reason> reason;
};

TEST(WhyNot, OnlyMatchingCardsCount) {
  const std::string node =
      "n: 0[100/1000 model=A100 uuid=GPU-a] 1[100/1000 model=H100 uuid=GPU-b] "
      "2[10/1000 of 1000 model=T4 uuid=GPU-c] 3[100/1000 model=L4 uuid=GPU-d unhealthy]";
  const SelectorCase cases[] = {
      {"a model", {{"H100"}, {}, {}, {}}, std::nullopt},
      {"case of models does not count", {{"h100"}, {}, {}, {}}, std::nullopt},
      {"a part of a model is another", {{"H10"}, {}, {}, {}}, Reason::kNoCardMatches},
      {"unknown model", {{"B200"}, {}, {}, {}}, Reason::kNoCardMatches},
      {"one of several", {{"B200", "A100"}, {}, {}, {}}, std::nullopt},
      {"excluded", {{}, {"A100", "H100"}, {}, {}}, Reason::kCore},
      {"all excluded", {{}, {"A100", "h100", "T4", "L4"}, {}, {}}, Reason::kNoCardMatches},
      {"both lists", {{"A100"}, {"a100"}, {}, {}}, Reason::kNoCardMatches},
      {"a uuid", {{}, {}, {"GPU-b"}, {}}, std::nullopt},
      {"case of uuids counts", {{}, {}, {"gpu-b"}, {}}, Reason::kNoCardMatches},
      {"excluded uuid", {{"A100"}, {}, {}, {"GPU-a"}}, Reason::kNoCardMatches},
      {"model and uuid of different cards", {{"A100"}, {}, {"GPU-b"}, {}}, Reason::kNoCardMatches},
      {"the full one", {{"T4"}, {}, {}, {}}, Reason::kCore},
      {"the unhealthy one", {{"L4"}, {}, {}, {}}, Reason::kCardsUnhealthy},
  };
  for (const auto& test : cases) {
    for (const char* containers : {"30/300", "20/100 20/200"}) {
      GpuRequest request = request_of(containers);
      request.selector = test.selector;
      EXPECT_EQ(text_of_reason(reason_of(node, request)), text_of_reason(test.reason))
          << test.what << containers;
    }
  }
}

TEST(WhyNot, AMigDeviceIsForPodsThatNameIt) {
  const SelectorCase cases[] = {
      {"nothing", {}, Reason::kNoCardMatches},
      {"the card", {{"A100"}, {}, {}, {}}, Reason::kNoCardMatches},
      {"other devices", {{}, {"MIG-1g.5gb"}, {}, {}}, Reason::kNoCardMatches},
      {"the device", {{"A100 MIG 3g.20gb"}, {}, {}, {}}, std::nullopt},
      {"any device", {{"mig"}, {}, {}, {}}, std::nullopt},
      {"its UUID", {{}, {}, {"MIG-1"}, {}}, std::nullopt},
      {"all but it", {{"MIG"}, {"3g.20gb"}, {}, {}}, std::nullopt},
      {"all but it by its name", {{"MIG"}, {"MIG 3g.20gb"}, {}, {}}, Reason::kNoCardMatches},
  };
  for (const auto& test : cases) {
    for (const char* containers : {"30/300", "whole"}) {
      GpuRequest request = request_of(containers);
      request.selector = test.selector;
      EXPECT_EQ(text_of_reason(
                    reason_of("n: 0[100/1000 model=NVIDIA-A100-MIG-3g.20gb uuid=MIG-1]", request)),
                text_of_reason(test.reason))
          << test.what << containers;
    }
  }
}

TEST(WhyNot, APodWithoutRequestsFitsEverywhere) {
  EXPECT_EQ(reason_of("n:", GpuRequest{}), std::nullopt);
  EXPECT_EQ(placed("n:", "", kBinpack), "");
}

TEST(WhyNot, ReportsThatTheSearchBoundWasReached) {
  const Node node = node_of("n: 0[100/1000] 1[100/1000]");
  const GpuRequest request = request_of("45/0 40/0 35/0 30/0 30/0 20/0");
  for (const std::uint32_t steps : {0u, 1u, 5u, 12u}) {
    SearchBudget budget{steps};
    EXPECT_EQ(why_not(node, request, budget), Reason::kSearchBound) << steps;
    EXPECT_EQ(budget.steps, 0u);
  }
}

// Three containers nearly fill a card: an exact search would take too long.
TEST(WhyNot, EndsWithinTheBoundOnHardPods) {
  std::string node = "n:";
  for (int i = 0; i < 16; ++i) {
    node += " " + std::to_string(i) + "[" + std::to_string(100 - i % 5) + "/1000 of 1000]";
  }
  std::string containers;
  for (int i = 0; i < 46; ++i)
    containers += std::to_string(26 + i % 16) + "/" + std::to_string(i) + " ";
  SearchBudget budget{kFilterStepsMax};
  const auto reason = why_not(node_of(node), request_of(containers), budget);
  EXPECT_EQ(text_of_reason(reason), text_of_reason(Reason::kSearchBound));
  EXPECT_GE(budget.steps, kFilterStepsMax - kPlacementStepsMax);
}

TEST(WhyNot, SingleContainersAreAnsweredWithoutSteps) {
  SearchBudget budget{0};
  EXPECT_EQ(why_not(node_of("n: 0[100/1000]"), request_of("30/300"), budget), std::nullopt);
  EXPECT_EQ(why_not(node_of("n: 0[10/1000 of 1000]"), request_of("30/300"), budget), Reason::kCore);
}

TEST(WhyNot, CardsBeyondTheLimitAreNeverUsed) {
  Node node = node_of("n: 0[10/1000 of 1000]");
  const Card full = node.cards[0];
  node.cards.assign(kCardsPerNodeMax, full);
  node.cards.push_back(node_of("n: 70[100/1000]").cards[0]);
  SearchBudget budget{kPlacementStepsMax};
  EXPECT_EQ(why_not(node, request_of("30/300"), budget), Reason::kCore);
  EXPECT_EQ(why_not(node, request_of("30/300 30/300"), budget), Reason::kCore);
}

struct PlaceCase {
  const char* node;
  const char* request;
  const char* binpack;
  const char* spread;
};

void expect_places(std::initializer_list<PlaceCase> cases) {
  for (const auto& test : cases) {
    EXPECT_EQ(placed(test.node, test.request, kBinpack), test.binpack)
        << test.node << " <- " << test.request;
    EXPECT_EQ(placed(test.node, test.request, kSpread), test.spread)
        << test.node << " <- " << test.request;
  }
}

TEST(Place, ChoosesTheCardsThatThePolicyRanksBest) {
  expect_places({
      // An empty card, or one in use.
      {"n: 0[100/1000] 1[60/600 of 1000]", "30/300", "1", "0"},
      // The fuller of two cards in use.
      {"n: 0[60/600 of 1000] 1[50/500 of 1000]", "30/300", "1", "0"},
      // Of equal cards the lower index.
      {"n: 0[100/1000] 1[100/1000]", "30/300", "0", "0"},
      // The fuller one has no room.
      {"n: 0[60/600 of 1000] 1[20/900 of 1000]", "30/300", "0", "0"},
      {"n: 0[100/1000] 1[60/600 of 1000] 2[70/700 of 1000]", "30/300x2", "1,2", "0,2"},
      {"n: 0[99/1000 of 1000] 1[100/1000] 2[100/1000]", "wholex2", "1,2", "1,2"},
      {"n: 3[100/1000] 5[100/1000]", "30/300x2", "3,5", "3,5"},
      // Whole cards of other sizes.
      {"n: 0[100/1000] 1[100/2000]", "whole whole", "0 | 1", "0 | 1"},
  });
}

TEST(Place, ContainersOfOnePodArePackedOrSpreadAmongThemselves) {
  expect_places({
      {"n: 0[100/1000] 1[100/1000]", "30/300 30/300", "0 | 0", "0 | 1"},
      {"n: 0[100/1000] 1[100/1000] 2[100/1000]", "60/600 50/500 40/400", "0 | 1 | 0", "0 | 1 | 2"},
      {"n: 0[100/1000] 1[90/900 of 1000]", "30/300 30/300", "1 | 1", "0 | 1"},
  });
}

TEST(Place, NeverChoosesCardsThatAreUnhealthyOrUncertain) {
  expect_places({
      {"n: 0[50/500 of 1000 unhealthy] 1[40/400 of 1000 uncertain] 2[100/1000]", "30/300", "2",
       "2"},
  });
}

TEST(Place, InitContainersRunOnCardsOfOtherContainers) {
  expect_places({
      {"n: 0[100/1000] 1[100/1000]", "init:30/300 60/600", "0 | 0", "0 | 0"},
      {"n: 0[100/1000] 1[100/1000]", "init:80/800 30/300", "0 | 0", "0 | 0"},
      {"n: 0[100/1000] 1[100/1000]", "init:80/100 30/800", "0 | 0", "0 | 0"},
      {"n: 0[100/1000] 1[100/1000]", "init:wholex2 30/300", "0,1 | 0", "0,1 | 0"},
      {"n: 0[100/1000] 1[100/1000]", "init:80/800 init:30/300 60/600", "0 | 0 | 0", "0 | 0 | 0"},
      // Two containers hold two cards; the init container takes one of them.
      {"n: 0[100/1000] 1[100/1000] 2[100/1000]", "init:50/500 60/600 60/600", "0 | 0 | 1",
       "0 | 0 | 1"},
      // Where there is no room for it beside the sidecar, another card is taken.
      {"n: 0[100/1000] 1[100/1000]", "side:60/600 init:60/600 10/100", "0 | 1 | 1", "0 | 1 | 1"},
  });
}

TEST(Place, LeavesRoomForExpectedPlacementsWherePossible) {
  expect_places({
      {"n: 0[100/1000 expected=100/1000] 1[60/600 of 1000]", "30/300", "1", "1"},
      {"n: 0[100/1000 expected=80/100] 1[100/1000]", "30/300", "1", "1"},
      {"n: 0[100/1000 expected=20/200] 1[100/1000]", "30/300", "0", "1"},
      {"n: 0[100/1000 expected=80/800] 1[100/1000 expected=80/800]", "30/300", "0 on expected",
       "0 on expected"},
      {"n: 0[100/1000 expected=80/800] 1[100/1000]", "30/300x2", "0,1 on expected",
       "0,1 on expected"},
      // More is expected than the card has.
      {"n: 0[100/1000 expected=300/9000]", "whole", "0 on expected", "0 on expected"},
  });
}

TEST(Place, ReportsTheReasonOfWhyNot) {
  expect_places(
      {{"n: 0[10/1000 of 1000]", "30/300", "node(s) had no single card with enough free mgpu-core",
        "node(s) had no single card with enough free mgpu-core"}});
}

// In the policy's order the search would need more steps; a pod that fits by why_not is placed.
TEST(Place, PlacesEveryPodThatFitsByWhyNotWithTheSameSteps) {
  const Node node = node_of("n: 0[100/1000] 1[99/1000 of 1000 expected=5/5] 2[100/1000]");
  const GpuRequest request = request_of("45/0 40/0 35/0 30/0 30/0 20/0 50/0 49/0");
  for (std::uint32_t steps = 0; steps < 400; ++steps) {
    for (const Policy* policy : {&kBinpack, &kSpread}) {
      SearchBudget budget{steps};
      const auto reason = why_not(node, request, budget);
      budget = {steps};
      const auto result = place(node, request, *policy, budget);
      if (!reason) {
        EXPECT_TRUE(std::holds_alternative<Placed>(result)) << steps << policy->name;
      }
    }
  }
}

std::uint64_t cards_scored = 0;

Score count_card(const PlacementContext&, const Node&, const Card&, const Share&, const Share&) {
  ++cards_scored;
  return 0;
}
std::uint32_t thousand_steps(const PlacementContext&, const Node&) {
  return 1'000;
}

// 17 containers of 34 to 50 %, of which two fit on a card, on 8 cards.
TEST(Place, APolicyThatTakesLongScoresFewerCards) {
  std::string node = "n:";
  for (int card = 0; card < 8; ++card) node += " " + std::to_string(card) + "[100/100000]";
  std::string containers;
  for (int core = 34; core <= 50; ++core) containers += std::to_string(core) + "/300 ";
  Policy policy = kBinpack;
  policy.score_card = count_card;
  const auto scored_with = [&](auto* steps) {
    policy.steps = steps;
    cards_scored = 0;
    SearchBudget budget{kFilterStepsMax};
    const auto result = place(node_of(node), request_of(containers), policy, budget);
    EXPECT_EQ(std::get<Reason>(result), Reason::kSearchBound);
    return cards_scored;
  };
  std::uint32_t (*const one_step)(const PlacementContext&, const Node&) = nullptr;
  EXPECT_GT(scored_with(one_step), kPlacementStepsMax / 10);
  EXPECT_LE(scored_with(thousand_steps), kPlacementStepsMax / 1'000);
}

TEST(Place, OneContainerIsChargedByTheCostOfThePolicy) {
  Policy policy = kBinpack;
  policy.steps = thousand_steps;
  SearchBudget budget{kPlacementStepsMax};
  place(node_of("n: 0[100/1000] 1[100/1000]"), request_of("60/600"), policy, budget);
  EXPECT_LE(budget.steps, kPlacementStepsMax - 2'000);
  budget.steps = 0;
  const auto result = place(node_of("n: 0[100/1000]"), request_of("60/600"), policy, budget);
  EXPECT_TRUE(std::holds_alternative<Placed>(result)) << "it needs no search";
}

TEST(WhyNot, ManyNamesAndContainersAreCharged) {
  GpuRequest request = request_of("1/1 1/1 1/1 1/1 1/1 1/1 1/1 1/1");
  request.selector.models_excluded.assign(64, "none");
  const Node node = node_of("n: 0[100/1000] 1[100/1000]");
  SearchBudget budget{kPlacementStepsMax};
  EXPECT_EQ(why_not(node, request, budget), std::nullopt);
  EXPECT_LE(budget.steps, kPlacementStepsMax - 2 * (64 + 8));
  budget.steps = 2 * (64 + 8) - 1;
  EXPECT_EQ(why_not(node, request, budget), Reason::kSearchBound);
}

TEST(Place, UsesTheSharedBudget) {
  SearchBudget budget{1000};
  const Node node = node_of("n: 0[100/1000] 1[100/1000]");
  std::uint32_t before = budget.steps;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(
        std::holds_alternative<Placed>(place(node, request_of("60/600 60/600"), kBinpack, budget)));
    EXPECT_LT(budget.steps, before);
    before = budget.steps;
  }
}

}  // namespace
}  // namespace mgpu::extender
