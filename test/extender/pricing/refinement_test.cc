#include "extender/pricing/refinement.h"

#include <gtest/gtest.h>

#include "test/support/price_snapshot_text.h"

namespace mgpu::extender {
namespace {

using test::kinds_of;
using test::node_of;
using test::workload_text;

std::vector<Node> free_cards(int nodes, const std::string& text) {
  return std::vector<Node>(static_cast<std::size_t>(nodes), node_of(text));
}

Prices refined(const std::string& workload, const std::vector<Node>& nodes) {
  const Kinds kinds = kinds_of(nodes);
  std::vector<NodeRoom> rooms;
  for (const Node& node : nodes) rooms.push_back(room_after(node, kinds, {}, {}));
  return refine(workload_text(workload), kinds, rooms, {}, kQuickStart);
}

TEST(Refine, AClassThatIsPackedMoreThanExpectedHasAPrice) {
  // Both fill cards; a tenth of the pods are small, and would be packed everywhere without a price.
  const Prices prices =
      refined("9 x 80/0, 1 x 20/0", free_cards(50, "n: 0[100/1000] 1[20/1000] 2[20/1000]"));
  EXPECT_GT(prices.supply[1], 0.05F);
  EXPECT_LT(prices.supply[0], prices.supply[1] * 4);
}

TEST(Refine, PricesAreWithinTheWorthOfTheirClass) {
  const auto nodes = free_cards(20, "n: 0[100/1000] 1[60/1000]");
  const std::string workload = "5 x 30/0, 3 x whole, 1 x wholex8, 4 x none@4";
  const Prices prices = refined(workload, nodes);
  const auto classes = priced_classes(workload_text(workload), kinds_of(nodes));
  ASSERT_EQ(prices.supply.size(), classes.size());
  for (std::size_t i = 0; i < classes.size(); ++i) {
    EXPECT_GE(prices.supply[i], 0.0F);
    EXPECT_LE(prices.supply[i], classes[i].gpus);
  }
}

TEST(Refine, EqualInputsGiveEqualPrices) {
  const auto nodes = free_cards(10, "n: 0[100/1000] 1[46/1000]");
  EXPECT_EQ(refined("2 x 46/0, 1 x whole", nodes).supply,
            refined("2 x 46/0, 1 x whole", nodes).supply);
}

TEST(Refine, EmptyAndFullClustersHavePrices) {
  EXPECT_EQ(refined("1 x 50/0", {}).supply.size(), 1U);
  const Prices full = refined("1 x 50/0", free_cards(3, "n: 0[0/0 of 1000]"));
  EXPECT_GE(full.supply[0], 0.0F);
  EXPECT_LE(full.supply[0], 0.5F);
}

TEST(Refine, EndsWithThePricesFoundSoFar) {
  const auto nodes = free_cards(5, "n: 0[100/1000] 1[20/1000]");
  const Kinds kinds = kinds_of(nodes);
  std::vector<NodeRoom> rooms;
  for (const Node& node : nodes) rooms.push_back(room_after(node, kinds, {}, {}));
  int rounds = 0;
  const auto prices = refine(workload_text("1 x 20/0"), kinds, rooms, {{0.05F}}, kFromNothing,
                             [&] { return ++rounds <= 3; });
  EXPECT_EQ(rounds, 4);
  EXPECT_GT(prices.supply[0], 0.0F);
  EXPECT_EQ(
      refine(workload_text("1 x 20/0"), kinds, rooms, {{0.05F}}, kFromNothing, [] { return false; })
          .supply[0],
      0.05F);
}

TEST(CarriedOver, TheSameClassKeepsItsPriceWhateverItsMainMemory) {
  const Workload from = workload_text("2 x 50/100@8, 1 x 30/100@8");
  Workload to = workload_text("1 x 30/100@8, 1 x 50/100@8");
  to.classes[0].what.resources.memory = MiB(77);
  const Prices carried = carried_over(from, {{0.4F, 0.1F}}, to);
  EXPECT_EQ(carried.supply, (std::vector<float>{0.1F, 0.4F}));
}

TEST(CarriedOver, ANewClassStartsFromClassesWithTheSameCards) {
  const Workload from = workload_text("2 x 50/100@8, 1 x 50/100@4");
  const Prices carried =
      carried_over(from, {{0.4F, 0.2F}}, workload_text("3 x 50/100@1, 1 x 60/100@8"));
  EXPECT_FLOAT_EQ(carried.supply[0], 0.3F);
  EXPECT_EQ(carried.supply[1], 0.0F);
}

}  // namespace
}  // namespace mgpu::extender
