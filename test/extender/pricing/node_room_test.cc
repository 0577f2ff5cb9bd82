#include "extender/pricing/node_room.h"

#include <gtest/gtest.h>

#include "extender/pricing/limits.h"
#include "test/support/cluster_text.h"
#include "test/support/price_snapshot_text.h"

namespace mgpu::extender {
namespace {

using test::kinds_of;
using test::node_of;
using test::node_with_host;

TEST(KindId, DependsOnTheModelWithoutCaseAndOnTheSize) {
  EXPECT_EQ(kind_id("A100", MiB(40'000)), kind_id("a100", MiB(40'000)));
  EXPECT_NE(kind_id("A100", MiB(40'000)), kind_id("A100", MiB(80'000)));
  EXPECT_NE(kind_id("A100", MiB(40'000)), kind_id("A10", MiB(40'000)));
  EXPECT_NE(kind_id("", MiB{}), 0U);
}

TEST(KindCount, TheMostFrequentComesFirstAfterTheUnknown) {
  const Kinds kinds = kinds_of(
      {node_of("n: 0[100/10 model=T4]"), node_of("m: 0[100/20 model=A10] 1[100/20 model=A10]")});
  ASSERT_EQ(kinds.size(), 3U);
  EXPECT_EQ(kinds[0], CardKind{});
  EXPECT_EQ(kinds[1], (CardKind{"A10", MiB(20)}));
  EXPECT_EQ(kinds[2], (CardKind{"T4", MiB(10)}));
}

TEST(KindCount, MostCardsAreThoseOfOneNode) {
  const Kinds kinds = kinds_of({node_of("n: 0[100/10 model=T4] 1[100/20 model=A10]"),
                                node_of("m: 0[100/10 model=t4] 1[100/10 model=T4]"),
                                node_of("o: 0[100/20 model=A10]")});
  ASSERT_EQ(kinds.size(), 3U);
  EXPECT_EQ(kinds.most_cards(kinds.find(kind_id("T4", MiB(10)))), 2);
  EXPECT_EQ(kinds.most_cards(kinds.find(kind_id("A10", MiB(20)))), 1);
}

TEST(KindCount, KindsBeyondTheLimitAreUnknown) {
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < kCardKindsMax + 3; ++i)
    nodes.push_back(node_of("n: 0[100/" + std::to_string(i + 1) + "]"));
  const Kinds kinds = kinds_of(nodes);
  EXPECT_EQ(kinds.size(), kCardKindsMax + 1);
  EXPECT_EQ(kinds.find(kind_id("", MiB(1))), 1U);
  EXPECT_EQ(kinds.find(kind_id("", MiB(static_cast<std::int64_t>(nodes.size())))), 0U);
}

TEST(RoomAfter, HasTheFreePartsOfUsableCards) {
  const Node node = node_of(
      "n: 0[100/1000] 1[40/250 of 1000] 2[0/500 of 1000] 3[100/1000 unhealthy] "
      "4[100/1000 uncertain] 5[70/1000 expected=20/500]");
  const NodeRoom room = room_after(node, kinds_of({node}), {}, {});
  ASSERT_EQ(room.count, 3);
  EXPECT_EQ(room.cards[0], (CardRoom{1, 100, 1.0F}));
  EXPECT_EQ(room.cards[1], (CardRoom{1, 40, 0.25F}));
  EXPECT_EQ(room.cards[2], (CardRoom{1, 50, 0.5F}));
}

TEST(RoomAfter, ThePodsHoldsAndRequestsAreSubtracted) {
  const Node node = node_with_host("n: 0[100/1000] 1[100/1000]", 10, 64);
  const std::vector<CardHold> pod{{CardIndex(1), {Percent(30), MiB(500)}}};
  const NodeRoom room = room_after(node, kinds_of({node}), {MilliCpu(2'500), MiB(1024)}, pod);
  EXPECT_EQ(room.cards[1], (CardRoom{1, 70, 0.5F}));
  EXPECT_FLOAT_EQ(room.cores, 7.5F);
  EXPECT_FLOAT_EQ(room.gib, 63.0F);
}

TEST(RoomAfter, OverfullCardsHaveNothingFree) {
  Node node = node_with_host("n: 0[0/0 of 1000 used=150/2000]", 1, 1);
  node.resources_used = {MilliCpu(5'000), MiB(9'999)};
  const NodeRoom room = room_after(node, kinds_of({node}), {}, {});
  EXPECT_EQ(room.count, 0);
  EXPECT_EQ(room.cores, 0.0F);
  EXPECT_EQ(room.gib, 0.0F);
}

// Prices are those of parts of one card.
TEST(RoomAfter, ACardWithMoreComputeIsFreeOrHasAPartFree) {
  Node node = node_of(
      "n: 0[100/1000] 1[100/1000 used=10/250] 2[100/1000 used=100/500] 3[100/1000 used=170/500]");
  for (Card& card : node.cards) card.capacity.core = Percent(200);
  const NodeRoom room = room_after(node, kinds_of({node}), {}, {});
  ASSERT_EQ(room.count, 4);
  EXPECT_EQ(room.cards[0], (CardRoom{1, 100, 1.0F}));
  EXPECT_EQ(room.cards[1], (CardRoom{1, 99, 0.75F}));
  EXPECT_EQ(room.cards[2], (CardRoom{1, 99, 0.5F}));
  EXPECT_EQ(room.cards[3], (CardRoom{1, 30, 0.5F}));
}

TEST(RoomAfter, ANodeOfUnknownAllocatableHasEnough) {
  const Node node = node_of("n: 0[100/1000]");
  EXPECT_GT(room_after(node, kinds_of({node}), {MilliCpu(64'000), MiB(1)}, {}).cores, 1'000.0F);
}

}  // namespace
}  // namespace mgpu::extender
