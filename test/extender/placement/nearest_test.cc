#include "extender/placement/nearest.h"

#include <gtest/gtest.h>

#include "extender/placement/limits.h"
#include "test/support/cluster_text.h"

namespace mgpu::extender {
namespace {

// "c0 -20/500", or "none".
std::string shortfall_text(const char* node, const char* pod, const char* least = "1/256") {
  SearchBudget budget{kPlacementStepsMax};
  const GpuRequest request = test::request_of(pod);
  const auto found = shortfall_of(test::node_of(node), request, test::share_of(least), budget);
  if (!found) return "none";
  return request.containers[found->container].name + " -" + test::text_of(found->share);
}

TEST(Shortfall, IsWhatTheNearestCardLacks) {
  EXPECT_EQ(shortfall_text("n: 0[40/1000 of 4000] 1[40/1500 of 4000]", "30/2000"), "c0 -0/500");
  EXPECT_EQ(shortfall_text("n: 0[40/1000 of 4000] 1[20/3000 of 4000]", "30/2000"), "c0 -10/0");
  EXPECT_EQ(shortfall_text("n: 0[20/1000 of 4000]", "30/2000"), "c0 -10/1000");
}

TEST(Shortfall, OfSeveralCardsIsThatOfTheFarthestOneNeeded) {
  EXPECT_EQ(
      shortfall_text("n: 0[40/3000 of 4000] 1[40/1500 of 4000] 2[40/100 of 4000]", "30/2000x2"),
      "c0 -0/500");
}

TEST(Shortfall, IsOfTheContainerThatDoesNotFit) {
  EXPECT_EQ(shortfall_text("n: 0[60/3000 of 4000]", "30/1000 70/1000"), "none")
      << "both would have to request less";
  EXPECT_EQ(shortfall_text("n: 0[60/3000 of 4000] 1[60/3000 of 4000]", "30/1000 70/1000"),
            "c1 -10/0");
}

TEST(Shortfall, IsNothingWhereNoSmallerRequestHelps) {
  EXPECT_EQ(shortfall_text("n: 0[50/1000]", "30/500"), "none") << "it fits";
  EXPECT_EQ(shortfall_text("n: 0[0/0 of 1000]", "30/500"), "none") << "nothing is free";
  EXPECT_EQ(shortfall_text("n: 0[10/1000 unhealthy]", "30/500"), "none");
  EXPECT_EQ(shortfall_text("n: 0[40/500 of 1000]", "whole"), "none");
  EXPECT_EQ(shortfall_text("n: 0[40/500 of 1000]", "30/600x2"), "none") << "too few cards";
  EXPECT_EQ(shortfall_text("n: 0[40/200 of 1000]", "30/500"), "none")
      << "a share has at least 256 MiB";
}

TEST(Shortfall, LeadsToNoSmallerShareThanTheNodeRequires) {
  Node node = test::node_of("n: 0[40/700 of 4000]");
  const GpuRequest request = test::request_of("30/1024");
  const auto found = [&] {
    SearchBudget budget{kPlacementStepsMax};
    return shortfall_of(node, request, test::share_of("1/256"), budget).has_value();
  };
  EXPECT_TRUE(found());
  node.profile.minimum = {Percent(3), MiB(1024)};
  EXPECT_FALSE(found());
}

TEST(Shortfall, IsLargerTheMoreOfACardIsMissing) {
  const Share card = test::share_of("100/1000");
  EXPECT_EQ(size_of({0, test::share_of("10/0")}, card), 100);
  EXPECT_EQ(size_of({0, test::share_of("10/500")}, card), 600);
  EXPECT_EQ(size_of({0, test::share_of("10/500")}, test::share_of("100/0")), 1'100);
}

}  // namespace
}  // namespace mgpu::extender
