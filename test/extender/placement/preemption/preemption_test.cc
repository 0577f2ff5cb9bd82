#include "extender/placement/preemption/preemption.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "extender/placement/limits.h"
#include "extender/placement/place.h"
#include "test/support/cluster_text.h"

namespace mgpu::extender {
namespace {

using test::node_of;
using test::request_of;
using test::share_of;

struct Pod {
  std::int32_t priority;
  std::vector<std::pair<int, const char*>> holds;  // card, share
  const char* start_time = "2026-01-01T00:00:00Z";
  bool breaks_budget = false;
};

std::vector<Candidate> candidates_of(const std::vector<Pod>& pods) {
  std::vector<Candidate> candidates;
  for (const Pod& pod : pods) {
    Candidate candidate{pod.priority, pod.start_time, pod.breaks_budget, {}};
    for (const auto& [card, share] : pod.holds) {
      candidate.holds.push_back({CardIndex(card), share_of(share)});
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

std::optional<Eviction> victims_for(const Node& node, const GpuRequest& request,
                                    const std::vector<Candidate>& candidates) {
  SearchBudget unbounded{std::numeric_limits<std::uint32_t>::max()};
  return choose_victims(node, request, candidates, std::nullopt, unbounded);
}

// "0 2", "0 2 !1" with one violation, "fits", or "impossible".
std::string victims(const std::string& node, const std::string& request,
                    const std::vector<Pod>& pods) {
  const auto candidates = candidates_of(pods);
  const auto eviction = victims_for(node_of(node), request_of(request), candidates);
  if (!eviction) return "impossible";
  if (eviction->victims.empty()) return "fits";
  std::string text;
  for (const std::size_t victim : eviction->victims) {
    text += (text.empty() ? "" : " ") + std::to_string(victim);
  }
  if (eviction->budget_violations > 0) text += " !" + std::to_string(eviction->budget_violations);
  return text;
}

TEST(ChooseVictims, NoneWhereThePodFitsWithoutAnEviction) {
  EXPECT_EQ(victims("n: 0[50/500 of 1000]", "30/300", {{1, {{0, "50/500"}}}}), "fits");
}

TEST(ChooseVictims, ImpossibleWhereNoEvictionHelps) {
  EXPECT_EQ(victims("n: 0[10/100 of 1000]", "30/300", {}), "impossible");
  EXPECT_EQ(victims("n: 0[10/100 of 1000]", "30/300", {{1, {{0, "10/100"}}}}), "impossible");
  EXPECT_EQ(victims("n: 0[0/0 of 1000 unhealthy]", "30/300", {{1, {{0, "100/1000"}}}}),
            "impossible");
  EXPECT_EQ(victims("n: 0[0/0 of 1000 uncertain]", "30/300", {{1, {{0, "100/1000"}}}}),
            "impossible");
  EXPECT_EQ(victims("n: 0[0/0 of 200]", "30/300", {{1, {{0, "100/200"}}}}), "impossible");
  // A card that the node does not have.
  EXPECT_EQ(victims("n: 0[10/100 of 1000]", "30/300", {{1, {{7, "90/900"}}}}), "impossible");
}

// Evictions of 20 % on each of three cards free 60 % in sum, but 50 % on no card; one victim is
// enough.
TEST(ChooseVictims, FreesACardAndNotASum) {
  EXPECT_EQ(
      victims(
          "n: 0[20/500 of 1000] 1[20/500 of 1000] 2[10/500 of 1000]", "50/500",
          {{1, {{0, "20/100"}}}, {1, {{1, "20/100"}}}, {5, {{2, "40/100"}}}, {1, {{0, "5/100"}}}}),
      "2");
}

TEST(ChooseVictims, TheOrderOfCostsIsThatOfKubernetes) {
  const std::string full = "n: 0[0/0 of 1000] 1[0/0 of 1000]";
  const char* early = "2026-01-01T00:00:00Z";
  const char* late = "2026-02-01T00:00:00Z";
  struct {
    const char* what;
    std::vector<Pod> pods;
    const char* victims;
  } const cases[] = {
      {"fewest violations, whatever the priority",
       {{1, {{0, "100/1000"}}, early, true}, {900, {{1, "100/1000"}}, early, false}},
       "1"},
      {"one violation is less than two",
       {{1, {{0, "50/500"}}, early, true},
        {1, {{0, "50/500"}}, early, true},
        {9, {{1, "50/500"}}, early, true},
        {9, {{1, "50/500"}}, early, false}},
       "2 3 !1"},
      {"then the lowest highest priority, whatever the number",
       {{2, {{0, "100/1000"}}}, {1, {{1, "40/400"}}}, {1, {{1, "30/300"}}}, {1, {{1, "30/300"}}}},
       "1 2 3"},
      {"then the fewest",
       {{2, {{0, "50/500"}}}, {1, {{0, "50/500"}}}, {2, {{1, "100/1000"}}}},
       "2"},
      {"then the lowest sum",
       {{2, {{0, "50/500"}}}, {2, {{0, "50/500"}}}, {2, {{1, "50/500"}}}, {1, {{1, "50/500"}}}},
       "2 3"},
      {"negative priorities count as such",
       {{-1, {{0, "100/1000"}}}, {-5, {{1, "100/1000"}}}},
       "1"},
      {"then those that started last",
       {{1, {{0, "100/1000"}}, early}, {1, {{1, "100/1000"}}, late}},
       "1"},
      {"who has not started is the last",
       {{1, {{0, "100/1000"}}, late}, {1, {{1, "100/1000"}}, ""}},
       "1"},
      {"the earliest of a set decides",
       {{1, {{0, "50/500"}}, early},
        {1, {{0, "50/500"}}, ""},
        {1, {{1, "50/500"}}, late},
        {1, {{1, "50/500"}}, late}},
       "2 3"},
      {"then the lower index", {{1, {{0, "100/1000"}}}, {1, {{1, "100/1000"}}}}, "0"},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(victims(full, "100/1000", test.pods), test.victims) << test.what;
  }
}

TEST(ChooseVictims, FreesAsManyCardsAsTheContainersNeed) {
  const std::vector<Pod> pods{{1, {{0, "100/1000"}}},
                              {1, {{1, "60/600"}, {2, "60/600"}}},
                              {1, {{1, "40/400"}}},
                              {1, {{2, "40/400"}}}};
  const std::string full = "n: 0[0/0 of 1000] 1[0/0 of 1000] 2[0/0 of 1000]";
  EXPECT_EQ(victims(full, "whole", pods), "0");
  EXPECT_EQ(victims(full, "50/500x2", pods), "1");
  EXPECT_EQ(victims(full, "50/500x3", pods), "0 1");
  EXPECT_EQ(victims(full, "wholex2", pods), "0 1 2");
  EXPECT_EQ(victims(full, "60/600 50/500", pods), "1");
  EXPECT_EQ(victims(full, "wholex3", pods), "0 1 2 3");
}

TEST(ChooseVictims, OverFullCardsNeedMoreVictims) {
  EXPECT_EQ(victims("n: 0[100/1000 used=150/900]", "30/100",
                    {{1, {{0, "50/300"}}}, {1, {{0, "50/300"}}}, {1, {{0, "50/300"}}}}),
            "0 1");
}

TEST(ChooseVictims, VictimsAreOnlyTakenFromMatchingCards) {
  GpuRequest request = request_of("30/300");
  request.selector.models = {"H100"};
  const auto candidates = candidates_of({{1, {{0, "100/1000"}}}, {9, {{1, "100/1000"}}}});
  const Node node = node_of("n: 0[0/0 of 1000 model=A100] 1[0/0 of 1000 model=H100]");
  EXPECT_EQ(victims_for(node, request, candidates).value().victims, std::vector<std::size_t>{1});
}

bool fits_without(Node node, const GpuRequest& request, const std::vector<Candidate>& candidates,
                  const std::vector<std::size_t>& gone) {
  for (const std::size_t victim : gone) {
    for (const CardHold& hold : candidates[victim].holds) node.find(hold.card)->used -= hold.share;
  }
  SearchBudget budget{kPlacementStepsMax};
  return !why_not(node, request, budget);
}

// So many different pods that the exact search ends at its bound.
TEST(ChooseVictims, EveryVictimIsNeededBeyondTheBoundToo) {
  Node node = node_of("n:");
  std::vector<Candidate> candidates;
  for (int card = 0; card < 8; ++card) {
    node.cards.push_back(node_of("n: 0[100/100000]").cards[0]);
    node.cards.back().index = CardIndex(card);
    for (int i = 0; i < 40; ++i) {
      const Share share{Percent(1 + (i + card) % 4), MiB(4000 - 97 * i + card)};
      node.cards.back().used += share;
      candidates.push_back({i % 7, "", i % 11 == 0, {{CardIndex(card), share}}});
    }
  }
  for (const char* text : {"60/70000", "60/70000x3", "70/50000 50/60000 init:80/80000"}) {
    const GpuRequest request = request_of(text);
    const auto eviction = victims_for(node, request, candidates);
    ASSERT_TRUE(eviction) << text;
    ASSERT_TRUE(fits_without(node, request, candidates, eviction->victims)) << text;
    for (std::size_t i = 0; i < eviction->victims.size(); ++i) {
      auto fewer = eviction->victims;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_FALSE(fits_without(node, request, candidates, fewer)) << text << " " << i;
    }
  }
}

}  // namespace
}  // namespace mgpu::extender
