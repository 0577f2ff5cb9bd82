#include "extender/placement/cluster.h"

#include <gtest/gtest.h>

#include "test/support/cluster_text.h"

namespace mgpu::extender {
namespace {

using test::node_of;
using test::text_of;

TEST(Node, FindsCardsByIndexAndNotByPosition) {
  Node node = node_of("n: 0[100/10] 2[100/12] 7[100/17]");
  for (const int index : {0, 2, 7}) {
    ASSERT_NE(node.find(CardIndex(index)), nullptr) << index;
    EXPECT_EQ(node.find(CardIndex(index))->capacity.memory, MiB(10 + index));
  }
  for (const int index : {1, 3, 8}) EXPECT_EQ(node.find(CardIndex(index)), nullptr) << index;
  EXPECT_EQ(Node{}.find(CardIndex(0)), nullptr);
}

TEST(Node, FoundCardsCanBeChanged) {
  Node node = node_of("n: 0[100/10] 2[100/12]");
  node.find(CardIndex(2))->healthy = false;
  EXPECT_TRUE(node.cards[0].usable());
  EXPECT_FALSE(node.cards[1].usable());
}

TEST(Card, RoomIsCapacityWithoutWhatIsUsedAndNeverBelowZero) {
  struct {
    const char* card;
    const char* room;
    const char* after_expected;
  } const cases[] = {
      {"0[100/1000]", "100/1000", "100/1000"},
      {"0[40/300 of 1000]", "40/300", "40/300"},
      {"0[40/300 of 1000 expected=10/200]", "40/300", "30/100"},
      {"0[40/300 of 1000 expected=60/100]", "40/300", "0/200"},
      {"0[100/1000 used=150/400]", "0/600", "0/600"},
      {"0[100/1000 used=50/4000 expected=10/0]", "50/0", "40/0"},
  };
  for (const auto& test : cases) {
    const Node node = node_of(std::string("n: ") + test.card);
    EXPECT_EQ(text_of(node.cards[0].room()), test.room) << test.card;
    EXPECT_EQ(text_of(node.cards[0].room_after_expected()), test.after_expected) << test.card;
  }
}

TEST(Card, IsUsableWhenHealthyAndCertain) {
  const Node node =
      node_of("n: 0[1/1] 1[1/1 unhealthy] 2[1/1 uncertain] 3[1/1 unhealthy uncertain]");
  EXPECT_TRUE(node.cards[0].usable());
  for (const std::size_t i : {1u, 2u, 3u}) EXPECT_FALSE(node.cards[i].usable()) << i;
}

}  // namespace
}  // namespace mgpu::extender
