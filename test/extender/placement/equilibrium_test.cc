#include <gtest/gtest.h>

#include "extender/placement/place.h"
#include "extender/placement/policies/policies.h"
#include "test/support/price_snapshot_text.h"

namespace mgpu::extender {
namespace {

using test::node_of;
using test::node_with_host;
using test::price_snapshot_of;
using test::request_of;

// The score of the node where the pod would be placed best.
Score score_of(const Node& node, const PlacementContext& context) {
  SearchBudget budget{100'000};
  const auto answer = place(node, context, kEquilibrium, budget);
  const auto& placed = std::get<Placed>(answer);
  return kEquilibrium.score_node(context, node, holds(node, context.request, placed.placement));
}

std::string card_of(const Node& node, const PlacementContext& context) {
  SearchBudget budget{100'000};
  return test::text_of(std::get<Placed>(place(node, context, kEquilibrium, budget)).placement);
}

TEST(Equilibrium, LeavesPartsThatExpectedPodsRequest) {
  // 80 - 30 leaves a 50; 65 - 30 leaves a 35, which either no class or one class requests.
  const Node node = node_of("n: 0[80/1000] 1[65/1000]");
  const GpuRequest pod = request_of("30/0");
  const PriceSnapshot without = price_snapshot_of("1 x 50/0, 1 x 30/0", {node});
  EXPECT_EQ(card_of(node, PlacementContext(pod, {}, 0, &without)), "0");
  const Node other = node_of("n: 0[90/1000] 1[65/1000]");
  const PriceSnapshot thirty_five = price_snapshot_of("1 x 35/0, 1 x 30/0", {other});
  EXPECT_EQ(card_of(other, PlacementContext(pod, {}, 0, &thirty_five)), "1");
}

TEST(Equilibrium, PlacesPodsWithLargeCpuRequestsWhereCpuIsPlentiful) {
  const Node rich = node_with_host("rich: 0[100/1000] 1[100/1000]", 200, 1000);
  const Node poor = node_with_host("poor: 0[100/1000] 1[100/1000]", 20, 1000);
  const PriceSnapshot price_snapshot = price_snapshot_of("1 x whole@8, 1 x whole@16", {rich, poor});
  const GpuRequest pod = request_of("whole");
  const PlacementContext context(pod, {MilliCpu(16'000), MiB{}}, 0, &price_snapshot);
  EXPECT_GT(score_of(rich, context), score_of(poor, context));
}

TEST(Equilibrium, KeepsScarceModelsForPodsThatRequestThem) {
  std::vector<Node> nodes{node_of("t4: 0[100/1000 model=T4]"),
                          node_of("v100: 0[100/1000 model=V100]")};
  const PriceSnapshot price_snapshot = price_snapshot_of("1 x whole on V100, 1 x whole", nodes);
  const GpuRequest anybody = request_of("whole");
  const PlacementContext context(anybody, {}, 0, &price_snapshot);
  EXPECT_GT(score_of(nodes[0], context), score_of(nodes[1], context));
}

TEST(Equilibrium, PodsWithoutCardsArePlacedWhereCardsStayUsable) {
  const Node full = node_with_host("full: 0[0/0 of 1000]", 32, 1000);
  const Node idle = node_with_host("idle: 0[100/1000] 1[100/1000]", 32, 1000);
  const PriceSnapshot price_snapshot = price_snapshot_of("1 x whole@16", {full, idle});
  const GpuRequest none;
  const PlacementContext context(none, {MilliCpu(16'000), MiB{}}, 0, &price_snapshot);
  EXPECT_GT(kEquilibrium.score_node(context, full, {}), kEquilibrium.score_node(context, idle, {}));
}

TEST(Equilibrium, NoPlacementIncreasesTheValue) {
  const Node node = node_with_host("n: 0[100/1000] 1[40/400 of 1000]", 32, 100);
  const PriceSnapshot price_snapshot = price_snapshot_of("2 x 30/300@4, 1 x whole@8", {node});
  for (const char* text : {"30/300", "40/100", "whole", "10/10 20/20"}) {
    const GpuRequest pod = request_of(text);
    EXPECT_LE(score_of(node, PlacementContext(pod, {MilliCpu(1'000), MiB(10)}, 0, &price_snapshot)),
              0)
        << text;
  }
}

TEST(Equilibrium, IsBinpackWithoutPrices) {
  const Node node = node_of("n: 0[100/1000] 1[50/500 of 1000]");
  const GpuRequest pod = request_of("20/200");
  const Share share = pod.containers.front().per_card;
  const PlacementContext context(pod);
  const PriceSnapshot nothing_known;
  const PlacementContext still(pod, {}, 0, &nothing_known);
  for (const PlacementContext* one : {&context, &still}) {
    for (const Card& card : node.cards) {
      EXPECT_EQ(kEquilibrium.score_card(*one, node, card, card.used, share),
                kBinpack.score_card(*one, node, card, card.used, share));
    }
  }
}

}  // namespace
}  // namespace mgpu::extender
