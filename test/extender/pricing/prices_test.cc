#include "extender/pricing/prices.h"

#include <gtest/gtest.h>

#include <random>

#include "extender/pricing/packing.h"
#include "test/support/price_snapshot_text.h"

namespace mgpu::extender {
namespace {

using test::kinds_of;
using test::node_of;
using test::node_with_host;
using test::workload_text;

// Without supply prices, the worth of a class is its GPUs.
float value_of(const std::string& workload, const Node& node) {
  const Kinds kinds = kinds_of({node});
  const PriceTables tables(workload_text(workload), kinds, {});
  return tables.value(room_after(node, kinds, {}, {}));
}

TEST(PriceTables, WithoutClassesOrKindsTheyAreEmpty) {
  const Kinds kinds = kinds_of({node_of("n: 0[100/1000]")});
  EXPECT_TRUE(PriceTables().empty());
  EXPECT_TRUE(PriceTables({}, kinds, {}).empty());
  EXPECT_TRUE(PriceTables(workload_text("1 x 50/10"), Kinds(), {}).empty());
  EXPECT_FALSE(PriceTables(workload_text("1 x 50/10"), kinds, {}).empty());
}

TEST(NodeValue, IsWhatCanBePackedIntoTheCards) {
  struct {
    const char* workload;
    const char* node;
    float gpus;
  } const cases[] = {
      {"1 x 50/0", "n: 0[100/1000]", 1.0F},
      {"1 x 50/0", "n: 0[70/1000]", 0.5F},
      {"1 x 50/0", "n: 0[49/1000]", 0.0F},
      {"1 x 30/0", "n: 0[100/1000]", 0.9F},
      {"1 x 30/0, 1 x 40/0", "n: 0[100/1000]", 1.0F},
      {"1 x 30/0, 1 x 40/0", "n: 0[100/1000] 1[50/1000]", 1.4F},
      {"1 x whole", "n: 0[100/1000] 1[99/1000]", 1.0F},
      {"1 x wholex2", "n: 0[100/1000] 1[100/1000] 2[100/1000]", 2.0F},
      {"1 x wholex2, 1 x 80/0", "n: 0[100/1000] 1[100/1000] 2[100/1000]", 2.8F},
      {"1 x wholex4", "n: 0[100/1000] 1[100/1000] 2[100/1000]", 0.0F},
      {"1 x none", "n: 0[100/1000]", 0.0F},
  };
  for (const auto& one : cases)
    EXPECT_NEAR(value_of(one.workload, node_of(one.node)), one.gpus, 1e-4F)
        << one.workload << " into " << one.node;
}

TEST(NodeValue, IsLimitedByTheNodesCpu) {
  EXPECT_NEAR(value_of("1 x 50/0@10", node_with_host("n: 0[100/1000]", 1000, 1000)), 1.0F, 1e-4F);
  // Half of the CPU, half of the pods: the bound is exact where a price of the grid fits.
  EXPECT_NEAR(value_of("1 x 50/0@10", node_with_host("n: 0[100/1000]", 10, 1000)), 0.5F, 0.2F);
  EXPECT_NEAR(value_of("1 x 50/0@10", node_with_host("n: 0[100/1000]", 0, 1000)), 0.0F, 1e-4F);
}

TEST(NodeValue, CountsOnlyClassesThatAcceptTheModel) {
  const Node node = node_of("n: 0[100/1000 model=T4]");
  EXPECT_NEAR(value_of("1 x 50/0 on T4", node), 1.0F, 1e-4F);
  EXPECT_NEAR(value_of("1 x 50/0 on A100", node), 0.0F, 1e-4F);
}

TEST(NodeValue, MigDevicesAreOfWorthForClassesThatNameThem) {
  const Node node = node_of("n: 0[100/1000 model=A100-MIG-1g.5gb]");
  EXPECT_NEAR(value_of("1 x 50/0", node), 0.0F, 1e-4F);
  EXPECT_NEAR(value_of("1 x 50/0 on A100", node), 0.0F, 1e-4F);
  EXPECT_NEAR(value_of("1 x 50/0 on MIG-1g.5gb", node), 1.0F, 1e-4F);
}

TEST(NodeValue, CardMemoryCanBeShortBeforeCompute) {
  // 10 % and half of the memory: two of them, not ten.
  const float value = value_of("1 x 10/500", node_of("n: 0[100/1000]"));
  EXPECT_GE(value, 0.2F - 1e-4F);
  EXPECT_LT(value, 0.5F);
  // Without memory left nothing fits.
  EXPECT_LT(value_of("1 x 10/500", node_of("n: 0[90/0 of 1000]")), 0.05F);
}

TEST(NodeValue, ClassesTooLargeForTheCardsMemoryDoNotCount) {
  EXPECT_NEAR(value_of("1 x 10/5000", node_of("n: 0[100/1000]")), 0.0F, 1e-4F);
}

TEST(NodeValue, MoreFreeCardsThanOneTableHasAreWorthAsMany) {
  std::string text = "n:";
  for (int card = 0; card < 40; ++card) text += " " + std::to_string(card) + "[100/1000]";
  EXPECT_NEAR(value_of("1 x 50/0", node_of(text)), 40.0F, 1e-2F);
}

TEST(NodeValue, CardsOfAnUnknownKindCountForClassesOfAnyModel) {
  const Kinds kinds = kinds_of({node_of("n: 0[100/1000 model=T4]")});
  const PriceTables tables(workload_text("1 x 50/0, 1 x 50/0 on T4"), kinds, {});
  const Node node = node_of("n: 0[100/1000 model=new]");
  EXPECT_NEAR(tables.value(room_after(node, kinds, {}, {})), 1.0F, 1e-4F);
}

// The value is below what can be packed here, as prices.cc explains: two pods, one, and one.
TEST(NodeValue, PodsOfSeveralCardsCountOnWholeFreeCardsOfOneKind) {
  EXPECT_NEAR(value_of("1 x 50/0x2", node_of("n: 0[100/1000] 1[100/1000]")), 1.0F, 1e-4F);
  EXPECT_NEAR(value_of("1 x 50/0x2", node_of("n: 0[60/1000] 1[60/1000]")), 0.0F, 1e-4F);
  const Node mixed = node_of("n: 0[100/1000 model=T4] 1[100/1000 model=A10]");
  EXPECT_NEAR(value_of("1 x wholex2", mixed), 0.0F, 1e-4F);
}

TEST(NodeValue, ASupplyPriceIsSubtracted) {
  const Node node = node_of("n: 0[100/1000]");
  const Kinds kinds = kinds_of({node});
  const PriceTables tables(workload_text("1 x 50/0"), kinds, {{0.3F}});
  EXPECT_NEAR(tables.value(room_after(node, kinds, {}, {})), 0.4F, 1e-4F);
}

// The value never increases when room is taken, nor decreases when it is released.
TEST(NodeValueProperty, NeverIncreasesWhenRoomIsTaken) {
  std::mt19937 random(7);
  const auto below = [&](int bound) {
    return static_cast<int>(random() % static_cast<unsigned>(bound));
  };
  const Workload workload =
      workload_text("5 x 30/300@2, 3 x 50/100@8, 2 x whole@4, 1 x wholex4@16, 2 x none@10");
  for (int round = 0; round < 300; ++round) {
    std::string text = "n:";
    for (int card = 0; card < 4; ++card)
      text += " " + std::to_string(card) + "[" + std::to_string(below(101)) + "/" +
              std::to_string(below(1001)) + " of 1000]";
    const Node node = node_with_host(text, below(64), below(256));
    const Kinds kinds = kinds_of({node});
    const PriceTables tables(workload, kinds, {});
    const std::int64_t core = below(static_cast<int>(node.cards[0].room().core.value()) + 1);
    const std::vector<CardHold> pod{{CardIndex(0), {Percent(core), MiB(below(100))}}};
    const float before = tables.value(room_after(node, kinds, {}, {}));
    const float after = tables.value(room_after(node, kinds, {MilliCpu(below(5'000)), MiB{}}, pod));
    EXPECT_LE(after, before + 1e-3F) << text;
    EXPECT_GE(after, -1e-3F) << text;
  }
}

std::vector<double> packed(const std::string& workload, const std::vector<Node>& nodes) {
  const Kinds kinds = kinds_of(nodes);
  const PriceTables tables(workload_text(workload), kinds, {});
  Packing packing(tables);
  for (const Node& node : nodes) packing.add(room_after(node, kinds, {}, {}));
  return packing.pods();
}

TEST(Packing, IsTheOneThatTheTablesImply) {
  const auto whole = packed("2 x wholex2, 1 x 80/0", {node_of("n: 0[100/9] 1[100/9] 2[100/9]")});
  EXPECT_NEAR(whole[0], 1, 1e-6);
  EXPECT_NEAR(whole[1], 1, 1e-6);
  const auto parts = packed("2 x 30/0, 1 x 40/0", {node_of("n: 0[100/9]"), node_of("m: 0[45/9]")});
  EXPECT_NEAR(parts[0], 2, 1e-3);
  EXPECT_NEAR(parts[1], 2, 1e-3);
}

TEST(Packing, SimilarClassesShareByTheirProbability) {
  const auto pods = packed("3 x 50/0@0, 1 x 50/10@0", {node_of("n: 0[100/9000]")});
  EXPECT_NEAR(pods[0], 1.5, 0.1);
  EXPECT_NEAR(pods[1], 0.5, 0.1);
}

TEST(Packing, NoMoreIsPackedThanIsFree) {
  std::vector<Node> nodes;
  for (int percent = 1; percent <= 100; ++percent)
    nodes.push_back(node_of("n: 0[" + std::to_string(percent) + "/1000]"));
  const auto pods = packed("1 x 7/0, 1 x 23/0, 1 x 46/0", nodes);
  EXPECT_LE(pods[0] * 7 + pods[1] * 23 + pods[2] * 46, 5050 + 1e-3);
}

}  // namespace
}  // namespace mgpu::extender
