#include "extender/placement/holds.h"

#include <gtest/gtest.h>

#include "test/support/cluster_text.h"

namespace mgpu::extender {
namespace {

using test::node_of;
using test::placement_of;
using test::request_of;
using test::text_of;

struct HoldCase {
  const char* request;
  const char* placement;
  const char* holds;
};

std::string held(const HoldCase& test) {
  const Node node = node_of("n: 0[100/1000] 1[100/2000] 2[100/3000]");
  return text_of(holds(node, request_of(test.request), placement_of(test.placement)));
}

TEST(Holds, AppContainersOnACardAddUp) {
  const HoldCase cases[] = {
      {"30/300", "1", "1=30/300"},
      {"30/300 20/100", "1 | 1", "1=50/400"},
      {"30/300 20/100", "2 | 0", "0=20/100 2=30/300"},
      {"30/300x2 20/100", "0,2 | 2", "0=30/300 2=50/400"},
      {"100/500x3", "0,1,2", "0=100/500 1=100/500 2=100/500"},
  };
  for (const auto& test : cases) EXPECT_EQ(held(test), test.holds) << test.request;
}

TEST(Holds, WholeCardsTakeTheMemoryOfTheirCard) {
  EXPECT_EQ(held({"wholex2", "0,2", ""}), "0=100/1000 2=100/3000");
}

// As kubernetes pkg/api/v1/resource/helpers.go: max(sum of app and sidecars, over init containers:
// own + sidecars before).
TEST(Holds, InitContainersAndSidecarsCountByTheKubernetesRule) {
  const HoldCase cases[] = {
      // The init container is the larger one: max(80, 30).
      {"init:80/100 30/100", "0 | 0", "0=80/100"},
      // In each dimension by itself: max(80, 30) and max(100, 400).
      {"init:80/100 30/400", "0 | 0", "0=80/400"},
      // One after the other: max(80, 60, 30).
      {"init:80/100 init:60/100 30/100", "0 | 0 | 0", "0=80/100"},
      // A sidecar stays: 20 + 30.
      {"side:20/50 30/100", "0 | 0", "0=50/150"},
      // Declared before the init container it runs beside it: max(20 + 70, 20 + 30).
      {"side:20/50 init:70/100 30/100", "0 | 0 | 0", "0=90/150"},
      // Declared after it, it does not: max(70, 20 + 30).
      {"init:70/100 side:20/50 30/100", "0 | 0 | 0", "0=70/150"},
      // Between two: max(60, 20 + 50, 20 + 30).
      {"init:60/100 side:20/50 init:50/100 30/100", "0 | 0 | 0 | 0", "0=70/150"},
      // On different cards nothing is shared.
      {"side:20/50 init:70/100 30/100", "0 | 1 | 2", "0=20/50 1=70/100 2=30/100"},
      // Card by card: card 0 max(80, 0), card 1 max(80, 30).
      {"init:80/100x2 30/100", "0,1 | 1", "0=80/100 1=80/100"},
      // The whole card first, then a share of it.
      {"init:whole 30/100", "1 | 1", "1=100/2000"},
  };
  for (const auto& test : cases) EXPECT_EQ(held(test), test.holds) << test.request;
}

TEST(Holds, CardsThatTheNodeDoesNotHaveCountWithTheRequest) {
  EXPECT_EQ(held({"30/300", "7", ""}), "7=30/300");
  EXPECT_EQ(held({"wholex2", "2,7", ""}), "2=100/3000 7=100/0");
}

TEST(Holds, OfNoContainersAreNone) {
  EXPECT_EQ(held({"", "", ""}), "");
}

TEST(HoldOn, CountsOnlyTheContainersOfTheSet) {
  const GpuRequest request = request_of("init:80/100 side:20/50 30/200 40/300");
  const Share card{kWholeCard, MiB(1000)};
  EXPECT_EQ(text_of(hold_on(card, request.containers, 0b0000)), "0/0");
  EXPECT_EQ(text_of(hold_on(card, request.containers, 0b0001)), "80/100");
  EXPECT_EQ(text_of(hold_on(card, request.containers, 0b0110)), "50/250");
  EXPECT_EQ(text_of(hold_on(card, request.containers, 0b1111)), "90/550");
}

}  // namespace
}  // namespace mgpu::extender
