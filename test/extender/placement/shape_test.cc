#include "extender/placement/shape.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "extender/placement/limits.h"
#include "extender/placement/place.h"
#include "extender/placement/policy.h"
#include "extender/placement/score.h"
#include "test/support/cluster_text.h"
#include "test/support/price_snapshot_text.h"

namespace mgpu::extender {
namespace {

using test::node_of;
using test::request_of;

constexpr const char* kNode =
    "n: 0[40/300 of 1000 expected=10/200] 1[100/1000 model=T4] 2[100/1000 model=T4] 3[60/900 of "
    "1000]";

TEST(Shape, IsThatOfANodeWithOtherNamesAndIndices) {
  const Node node = node_of(kNode);
  Node other = node_of(
      "another: 1[40/300 of 1000 expected=10/200 uuid=GPU-1] 3[100/1000 model=T4] "
      "4[100/1000 model=T4] 7[60/900 of 1000]");
  other.profile.name = "named differently";
  other.pods_counted = 3;
  EXPECT_TRUE(same_shape(node, other));
  EXPECT_EQ(shape_hash(node), shape_hash(other));
}

TEST(Shape, IsThatOfEqualLinks) {
  Node node = node_of(kNode);
  Node other = node;
  CardLinks links(4);
  links.set(0, 3, nvlinks(2));
  node.links = std::make_shared<const CardLinks>(links);
  other.links = std::make_shared<const CardLinks>(links);
  EXPECT_TRUE(same_shape(node, other));
  links.set(0, 3, nvlinks(1));
  other.links = std::make_shared<const CardLinks>(links);
  EXPECT_FALSE(same_shape(node, other));
}

TEST(Shape, ChangesWithAllThatADecisionReads) {
  const Policy other_policy{};
  const std::vector<std::function<void(Node&)>> changes = {
      [](Node& node) { node.cards.pop_back(); },
      [](Node& node) { std::swap(node.cards[0], node.cards[1]); },
      [](Node& node) { node.cards[1].used.core = Percent(1); },
      [](Node& node) { node.cards[1].used.memory = MiB(1); },
      [](Node& node) { node.cards[1].expected.memory = MiB(1); },
      [](Node& node) { node.cards[1].capacity.memory = MiB(1001); },
      [](Node& node) { node.cards[1].model = "A100"; },
      [](Node& node) { node.cards[1].kind = 77; },
      [](Node& node) { node.cards[1].healthy = false; },
      [](Node& node) { node.cards[1].cordoned = true; },
      [](Node& node) { node.cards[1].uncertain = true; },
      [](Node& node) { node.allocatable.cpu = MilliCpu(1); },
      [](Node& node) { node.resources_used.memory = MiB(1); },
      [](Node& node) { node.links = std::make_shared<const CardLinks>(4); },
      [](Node& node) { node.profile.minimum.core = Percent(5); },
      [](Node& node) { node.profile.parts_of_one_card = true; },
      [&](Node& node) { node.node_policy = &other_policy; },
      [&](Node& node) { node.card_policy = &other_policy; }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Node changed = node_of(kNode);
    changes[i](changed);
    EXPECT_FALSE(same_shape(node_of(kNode), changed)) << "change " << i;
  }
}

// Every policy, with and without prices.
TEST(Shape, GivesEqualDecisions) {
  const Node node = node_of(kNode);
  Node other = node;
  other.name = NodeName("another");
  for (Card& card : other.cards) {
    card.index = CardIndex(2 * card.index.value() + 1);
    card.uuid = CardUuid("GPU-" + std::to_string(card.index.value()));
  }
  ASSERT_TRUE(same_shape(node, other));
  const PriceSnapshot prices =
      test::price_snapshot_of("1 x 50/500@8, 1 x whole@8", {node_of(kNode)});
  for (const std::string_view name : policy_names()) {
    const PolicyChoice policy = *find_policy(name);
    for (const char* text :
         {"30/100 30/100", "whole 20/100", "10/100x3 70/300", "wholex4 10/100"}) {
      const GpuRequest request = request_of(text);
      for (const PriceSnapshot* by : {static_cast<const PriceSnapshot*>(nullptr), &prices}) {
        const PlacementContext context(request, {MilliCpu(1), MiB(1)}, 0, by);
        SearchBudget first{kPlacementStepsMax};
        SearchBudget second{kPlacementStepsMax};
        EXPECT_EQ(score_of(node, context, policy, first), score_of(other, context, policy, second))
            << name << ' ' << text;
        EXPECT_EQ(first.steps, second.steps) << name << ' ' << text;
      }
    }
  }
}

}  // namespace
}  // namespace mgpu::extender
