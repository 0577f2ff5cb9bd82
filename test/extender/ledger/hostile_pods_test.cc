// Pods for which every node takes a search that runs into its bound. The ledger's lock must not be
// held meanwhile: binds and watch events wait for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "extender/ledger/ledger.h"
#include "extender/ledger/limits.h"
#include "extender/placement/limits.h"
#include "extender/placement/policies/policies.h"
#include "test/support/ledger_text.h"
#include "test/support/price_snapshot_text.h"

namespace mgpu::extender {
namespace {
using test::at_ms;

constexpr std::size_t kCards = 8;
constexpr std::size_t kMemory = 100'000;
// What one node may take more: to copy it, or to decide on it under the lock.
constexpr std::uint64_t kLongestHold =
    kHoldStepsMax + 1 + std::max<std::uint64_t>(kCopySteps * kCards, kLockedDecisionStepsMax);

std::string node_text(std::size_t number, std::size_t memory) {
  std::string text = "n" + std::to_string(number) + ":";
  for (std::size_t card = 0; card < kCards; ++card)
    text += " " + std::to_string(card) + "[100/" + std::to_string(memory) + "]";
  return text;
}

// Its sum fits on eight cards, and no packing does.
GpuRequest hostile_request() {
  std::string containers;
  for (int core = 34; core <= 50; ++core) containers += std::to_string(core) + "/300 ";
  return test::request_of(containers);
}

class HostilePodsTest : public testing::Test {
 protected:
  // Of as many shapes, so that there is a decision for each.
  void add_nodes(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) add_node(i, kMemory + i);
  }
  void add_equal_nodes(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) add_node(i, kMemory);
  }
  void add_node(std::size_t number, std::size_t memory) {
    names_.push_back("n" + std::to_string(number));
    ledger_.apply_node(test::facts_of(node_text(number, memory)));
    views_.assign(names_.begin(), names_.end());
  }

  Ledger ledger_;
  std::vector<std::string> names_;
  std::vector<std::string_view> views_;
  const PriceSnapshot prices_ =
      test::price_snapshot_of("1 x 50/1000@8, 1 x whole@8", {test::node_of(node_text(0, kMemory))});
};

TEST_F(HostilePodsTest, AreSearchedWithoutTheLock) {
  add_nodes(6);
  const GpuRequest request = hostile_request();
  const auto reasons = ledger_.decisions().why_not(views_, request, at_ms(0));
  EXPECT_EQ(std::ranges::count(reasons, Reason::kSearchBound), 6);
  const PlacementContext context(request, {}, 0, &prices_);
  const auto scores =
      ledger_.decisions().score(views_, context, {&kEquilibrium, &kEquilibrium}, at_ms(0));
  EXPECT_EQ(std::ranges::count(scores, true, &Scored::fits), 0);
  EXPECT_LE(ledger_.decisions().longest_hold(), kLongestHold);
}

TEST_F(HostilePodsTest, OrdinaryPodsHoldTheLockNoLonger) {
  add_nodes(1'000);
  const GpuRequest request = test::request_of("30/300");
  const auto reasons = ledger_.decisions().why_not(views_, request, at_ms(0));
  EXPECT_EQ(std::ranges::count(reasons, std::optional<Reason>()), 1'000);
  const PlacementContext context(request, {}, 0, &prices_);
  const auto scores =
      ledger_.decisions().score(views_, context, {&kEquilibrium, &kEquilibrium}, at_ms(0));
  EXPECT_EQ(std::ranges::count(scores, true, &Scored::fits), 1'000);
  EXPECT_LE(ledger_.decisions().longest_hold(), kLongestHold);
  EXPECT_GT(ledger_.decisions().longest_hold(), kHoldStepsMax / 2) << "the steps are counted";
}

TEST_F(HostilePodsTest, ManyNamesInASelectorAreComparedWithoutTheLock) {
  add_nodes(100);
  GpuRequest request = test::request_of("30/300");
  for (int i = 0; i < 64; ++i)
    request.selector.models_excluded.push_back("model" + std::to_string(i));
  const auto reasons = ledger_.decisions().why_not(views_, request, at_ms(0));
  EXPECT_EQ(std::ranges::count(reasons, std::optional<Reason>()), 100);
  EXPECT_LE(ledger_.decisions().longest_hold(), kLongestHold);
}

// --- a policy that uses the ledger ---------------------------------------------------------------

Ledger* used_by_the_policy = nullptr;
std::size_t uses = 0;

// Waits forever where the caller holds the lock.
Score use_the_ledger(const PlacementContext&, const Node&, const std::vector<CardHold>&) {
  used_by_the_policy->remove_pod(PodUid("another"));
  ++uses;
  return 0;
}
const Policy kUsesTheLedger{
    .name = "uses", .score_card = kBinpack.score_card, .score_node = use_the_ledger};

TEST_F(HostilePodsTest, NodesMayChangeDuringAScore) {
  add_nodes(100);
  used_by_the_policy = &ledger_;
  const GpuRequest request = test::request_of("30/300 20/300");
  const auto scores =
      ledger_.decisions().score(views_, request, {&kUsesTheLedger, &kUsesTheLedger}, at_ms(0));
  EXPECT_EQ(std::ranges::count(scores, true, &Scored::fits), 100);
  EXPECT_EQ(uses, 100U);
}

Score end_the_searches(const PlacementContext&, const Node&, const std::vector<CardHold>&) {
  used_by_the_policy->decisions().end_searches();
  return 0;
}
const Policy kEndsTheSearches{
    .name = "ends", .score_card = kBinpack.score_card, .score_node = end_the_searches};

TEST_F(HostilePodsTest, AnEndWaitsForTheSearchOnOneNode) {
  add_nodes(100);
  used_by_the_policy = &ledger_;
  const PolicyChoice policy{&kEndsTheSearches, &kEndsTheSearches};
  const auto fitting = [&](const char* containers) {
    const GpuRequest request = test::request_of(containers);
    const auto scores =
        ledger_.decisions().score(views_, request, policy, at_ms(0), {PodUid("p"), 0, "a"});
    return std::ranges::count(scores, true, &Scored::fits);
  };
  EXPECT_EQ(fitting("30/300 20/300"), 1);
  const std::uint64_t before = ledger_.reader().counts().search_steps;
  const auto reasons =
      ledger_.decisions().why_not(views_, hostile_request(), at_ms(0), {PodUid("p"), 0, "a"});
  EXPECT_EQ(std::ranges::count(reasons, Reason::kSearchBound), 100);
  EXPECT_EQ(ledger_.reader().counts().search_steps, before);
  EXPECT_EQ(fitting("30/300"), 100) << "no search";
}

std::size_t uses_before_the_end = 0;

Score end_the_searches_later(const PlacementContext&, const Node&, const std::vector<CardHold>&) {
  if (++uses > uses_before_the_end) used_by_the_policy->decisions().end_searches();
  return 0;
}
const Policy kEndsLater{
    .name = "later", .score_card = kBinpack.score_card, .score_node = end_the_searches_later};

TEST_F(HostilePodsTest, AnEndWaitsForOneScoreThatIsPrewarmed) {
  add_nodes(100);
  used_by_the_policy = &ledger_;
  uses = 0;
  uses_before_the_end = 200;
  for (const char* containers : {"30/300 20/300", "30/300 20/301"}) {
    const GpuRequest request = test::request_of(containers);
    ledger_.decisions().score(views_, {request, {}, 0, &prices_}, {&kEndsLater, &kEndsLater},
                              at_ms(0));
  }
  ASSERT_EQ(uses, 200U);
  const PriceSnapshot next = prices_;
  ledger_.decisions().prewarm_scores(
      next, [] { return true; }, [](const auto& computation) { computation(); });
  EXPECT_EQ(uses, 201U);
}

Score count_the_cards(const PlacementContext&, const Node&, const Card&, const Share&,
                      const Share&) {
  ++uses;
  return 0;
}
const Policy kCountsTheCards{
    .name = "counts", .score_card = count_the_cards, .score_node = kBinpack.score_node};

TEST_F(HostilePodsTest, APrewarmGivesUpARequestWhoseSearchEndsAtItsBound) {
  add_nodes(10);
  uses = 0;
  const GpuRequest request = hostile_request();
  ledger_.decisions().score(views_, {request, {}, 0, &prices_},
                            {&kCountsTheCards, &kCountsTheCards}, at_ms(0));
  const std::size_t on_all_nodes = std::exchange(uses, 0);
  const PriceSnapshot next = prices_;
  ledger_.decisions().prewarm_scores(
      next, [] { return true; }, [](const auto& computation) { computation(); });
  EXPECT_GT(uses, 0U);
  EXPECT_LT(uses, on_all_nodes / 5);
}

// --- nodes of one shape --------------------------------------------------------------------------

TEST_F(HostilePodsTest, NodesOfOneShapeTakeOneSearch) {
  add_equal_nodes(500);
  const auto reasons = ledger_.decisions().why_not(views_, hostile_request(), at_ms(0));
  EXPECT_EQ(std::ranges::count(reasons, Reason::kSearchBound), 500);
  used_by_the_policy = &ledger_;
  uses = 0;
  const GpuRequest request = test::request_of("30/300 20/300");
  const auto scores =
      ledger_.decisions().score(views_, request, {&kUsesTheLedger, &kUsesTheLedger}, at_ms(0));
  EXPECT_EQ(std::ranges::count(scores, true, &Scored::fits), 500);
  EXPECT_EQ(uses, 1U);
  EXPECT_LE(ledger_.decisions().longest_hold(), kLongestHold);
}

// --- the allowance of a namespace ----------------------------------------------------------------

class AllowanceTest : public HostilePodsTest {
 protected:
  static DecidedPod pod_of(const char* name_space) { return {PodUid("p"), 0, name_space}; }
  // Of hostile pods, of which no two are equal.
  std::uint64_t steps_of_filters(int count, int at) {
    const std::uint64_t before = ledger_.reader().counts().search_steps;
    for (int i = 0; i < count; ++i) {
      GpuRequest request = hostile_request();
      request.containers[0].per_card.memory += MiB(++filters_);
      ledger_.decisions().why_not(views_, request, at_ms(at), pod_of("hostile"));
    }
    return ledger_.reader().counts().search_steps - before;
  }
  std::int64_t fitting(const char* name_space, const char* containers, int at) {
    const auto reasons = ledger_.decisions().why_not(views_, test::request_of(containers),
                                                     at_ms(at), pod_of(name_space));
    return std::ranges::count(reasons, std::optional<Reason>());
  }

  int filters_ = 0;
};

TEST_F(AllowanceTest, BoundsTheStepsOfAllPodsTogether) {
  add_nodes(50);
  EXPECT_LE(steps_of_filters(20, 0), kSearchStepsSaved + 20 * kSearchStepsLeast);
  EXPECT_GE(ledger_.reader().counts().search_steps, kSearchStepsSaved);
  EXPECT_GT(ledger_.reader().counts().searches_limited, 0U);
  EXPECT_LE(steps_of_filters(10, 0), 10 * kSearchStepsLeast);
  EXPECT_LE(steps_of_filters(10, 1'000), 1'000 * kSearchStepsPerMs + 10 * kSearchStepsLeast);
}

TEST_F(AllowanceTest, IsThatOfItsOwnNamespace) {
  add_nodes(50);
  steps_of_filters(20, 0);
  const std::uint64_t before = ledger_.reader().counts().searches_limited;
  EXPECT_EQ(fitting("another", "30/300 20/300 50/1000 whole", 0), 50);
  EXPECT_EQ(ledger_.reader().counts().searches_limited, before);
}

TEST_F(AllowanceTest, PodsThatAreEasyToPlaceFitBeyondIt) {
  add_nodes(50);
  steps_of_filters(20, 0);
  EXPECT_EQ(fitting("hostile", "30/300", 0), 50);
  EXPECT_GT(fitting("hostile", "30/300 20/300 50/1000 whole", 0), 0);
}

TEST_F(AllowanceTest, ManyNamespacesTakeBoundedMemory) {
  add_nodes(1);
  for (std::size_t i = 0; i < 2 * kSearchAccountsMax; ++i)
    fitting(("n" + std::to_string(i)).c_str(), "30/300 20/300", 0);
  EXPECT_EQ(ledger_.reader().counts().searches_limited, 0U);
}

TEST_F(AllowanceTest, ManyNamespacesDoNotRenewIt) {
  add_nodes(50);
  steps_of_filters(20, 0);
  for (std::size_t i = 0; i < 2 * kSearchAccountsMax; ++i)
    fitting(("n" + std::to_string(i)).c_str(), "30/300 20/300", 0);
  EXPECT_LE(steps_of_filters(10, 0), 10 * kSearchStepsLeast);
}

// --- visiting ------------------------------------------------------------------------------------

TEST_F(HostilePodsTest, NodesAreVisitedInStepsBetweenWhichTheyMayChange) {
  add_nodes(1'000);
  std::size_t visited = 0;
  std::size_t before = 0;
  std::size_t largest_step = 0;
  ledger_.reader().visit_in_steps([&](const Node&) { ++visited; },
                                  [&] {
                                    largest_step = std::max(largest_step, visited - before);
                                    before = visited;
                                    return ledger_.reader().counts().nodes ==
                                           1'000;  // takes the lock
                                  });
  EXPECT_EQ(visited, 1'000U);
  EXPECT_EQ(largest_step, kNodeCopiesMax);
}

TEST_F(HostilePodsTest, AVisitEndsWhenItIsToldTo) {
  add_nodes(100);
  std::size_t visited = 0;
  ledger_.reader().visit_in_steps([&](const Node&) { ++visited; }, [] { return false; });
  EXPECT_EQ(visited, kNodeCopiesMax);
}

}  // namespace
}  // namespace mgpu::extender
