// What the profile of a node changes for the pods that are placed on it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extender/placement/limits.h"
#include "extender/placement/place.h"
#include "extender/placement/policies/policies.h"
#include "test/support/cluster_text.h"

namespace mgpu::extender {
namespace {

using test::request_of;

std::optional<Reason> reason_on(const Node& node, const char* request) {
  SearchBudget budget{kPlacementStepsMax};
  return why_not(node, request_of(request), budget);
}

// A node whose cards have this compute.
Node with_core(const char* text, std::int64_t core) {
  Node node = test::node_of(text);
  for (Card& card : node.cards) card.capacity.core = Percent(core);
  return node;
}

// The cards that the request gets, or "none".
std::string placed_on(const Node& node, const GpuRequest& request, const Policy& policy) {
  SearchBudget budget{kPlacementStepsMax};
  const auto result = place(node, PlacementContext(request), policy, budget);
  const auto* placed = std::get_if<Placed>(&result);
  return placed == nullptr ? "none" : test::text_of(placed->placement);
}

TEST(ProfileOfANode, WithMoreComputeLetsPodsHoldMoreThanACardButNotMoreMemory) {
  EXPECT_EQ(reason_on(with_core("n: 0[100/1000 used=150/500]", 200), "50/500"), std::nullopt);
  EXPECT_EQ(reason_on(with_core("n: 0[100/1000 used=150/500]", 200), "51/500"), Reason::kCore);
  EXPECT_EQ(reason_on(with_core("n: 0[100/1000 used=150/500]", 200), "50/501"), Reason::kMemory);
}

// A container without a limit of its own must have no other beside it.
TEST(ProfileOfANode, WithMoreComputeGivesACardOfAHundredPercentToOneContainerAlone) {
  for (const char* request : {"100/300", "whole"}) {
    EXPECT_EQ(reason_on(with_core("n: 0[100/1000]", 200), request), std::nullopt) << request;
    EXPECT_EQ(reason_on(with_core("n: 0[100/1000 used=10/0]", 200), request), Reason::kCore)
        << request;
  }
  const Node node = with_core("n: 0[100/1000]", 200);
  const GpuRequest request = request_of("100/300");
  EXPECT_THAT(holds(node, request, test::placement_of("0")),
              testing::ElementsAre(CardHold{CardIndex(0), {Percent(200), MiB(300)}}));
}

TEST(ProfileOfANode, RefusesSharesBelowItsMinimum) {
  Node node = test::node_of("n: 0[100/1000] 1[100/1000]");
  node.profile.minimum = {Percent(20), MiB(300)};
  EXPECT_EQ(reason_on(node, "20/300"), std::nullopt);
  EXPECT_EQ(reason_on(node, "19/300"), Reason::kShareTooSmall);
  EXPECT_EQ(reason_on(node, "20/299"), Reason::kShareTooSmall);
  EXPECT_EQ(reason_on(node, "20/299x2"), Reason::kShareTooSmall);
  EXPECT_EQ(reason_on(node, "50/500 10/500"), Reason::kShareTooSmall);
  EXPECT_EQ(reason_on(node, "whole"), std::nullopt);
  EXPECT_EQ(placed_on(node, request_of("10/500"), kBinpack), "none");
  EXPECT_EQ(placed_on(node, request_of("20/500"), kBinpack), "0");
}

TEST(ProfileOfANode, RefusesPartsOfSeveralCardsWhereTheyDoNotStart) {
  Node node = test::node_of("n: 0[100/1000] 1[100/1000]");
  EXPECT_EQ(reason_on(node, "50/300x2"), std::nullopt);
  node.profile.parts_of_one_card = true;
  EXPECT_EQ(reason_on(node, "50/300x2"), Reason::kPartsOfOneCard);
  EXPECT_EQ(reason_on(node, "50/300x3"), Reason::kPartsOfOneCard) << "more cards do not help";
  EXPECT_EQ(reason_on(node, "whole 50/300x2"), Reason::kPartsOfOneCard);
  EXPECT_EQ(placed_on(node, request_of("50/300x2"), kBinpack), "none");
  for (const char* request : {"50/300", "wholex2", "100/300x2", "50/300 50/300"}) {
    EXPECT_EQ(reason_on(node, request), std::nullopt) << request;
  }
}

TEST(ProfileOfANode, ChoosesCardsByItsPolicyUnlessThePodHasOne) {
  Node node = test::node_of("n: 0[50/500 of 1000] 1[100/1000]");
  node.node_policy = node.card_policy = &kSpread;
  GpuRequest request = request_of("20/200");
  EXPECT_EQ(placed_on(node, request, kBinpack), "1");
  request.policy = "binpack";
  EXPECT_EQ(placed_on(node, request, kBinpack), "0");
}

}  // namespace
}  // namespace mgpu::extender
