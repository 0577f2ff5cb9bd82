#include "extender/placement/simulate.h"

#include <gtest/gtest.h>

#include "extender/placement/limits.h"
#include "test/support/cluster_text.h"

namespace mgpu::extender {
namespace {

// "n1:0 n1:1 n2:0": node and cards of each pod until one does not fit.
std::string simulated(const std::vector<const char*>& nodes, const char* pod,
                      const char* policy = "binpack", std::size_t most = 100) {
  std::vector<Node> all;
  for (const char* node : nodes) all.push_back(test::node_of(node));
  const GpuRequest request = test::request_of(pod);
  SearchBudget budget{kScoreStepsMax};
  Simulation simulation(std::move(all), request, {}, *find_policy(policy), 1, nullptr);
  EXPECT_TRUE(simulation.begin(budget, [] { return true; }));
  std::string text;
  for (std::size_t i = 0; i < most; ++i) {
    const auto placed = simulation.place_next(budget);
    if (!placed) break;
    text += (text.empty() ? "" : " ") + simulation.nodes()[placed->node].name.str() + ":" +
            test::text_of(placed->placement);
  }
  return text;
}

TEST(Simulate, PlacesPodsUntilNoneFits) {
  EXPECT_EQ(simulated({"n1: 0[100/1000]"}, "40/100"), "n1:0 n1:0");
  EXPECT_EQ(simulated({"n1: 0[100/1000 unhealthy]"}, "40/100"), "");
  EXPECT_EQ(simulated({}, "40/100"), "");
}

TEST(Simulate, PlacesByThePolicy) {
  const std::vector<const char*> nodes = {"n1: 0[100/1000]", "n2: 0[100/1000]"};
  EXPECT_EQ(simulated(nodes, "40/100", "binpack", 3), "n1:0 n1:0 n2:0");
  EXPECT_EQ(simulated(nodes, "40/100", "spread", 3), "n1:0 n2:0 n1:0");
}

TEST(Simulate, PlacesPodsOfSeveralContainersAndWholeCards) {
  EXPECT_EQ(simulated({"n1: 0[100/1000] 1[100/1000] 2[50/500 of 1000]"}, "whole"), "n1:0 n1:1");
  EXPECT_EQ(simulated({"n1: 0[100/1000] 1[100/1000]"}, "60/100 60/100"), "n1:0 | 1");
}

TEST(Simulate, CountsCpuMemoryAndPodsOfTheNode) {
  Node node = test::node_of("n1: 0[100/1000]");
  node.allocatable = {MilliCpu(1'000), MiB(1'000)};
  node.pods_allowed = 110;
  const GpuRequest request = test::request_of("10/10");
  const auto count = [&](const Node& on, const NodeResources& resources) {
    SearchBudget budget{kScoreStepsMax};
    Simulation simulation({on}, request, resources, *find_policy("binpack"), 1, nullptr);
    simulation.begin(budget, [] { return true; });
    int placed = 0;
    while (simulation.place_next(budget)) ++placed;
    return placed;
  };
  EXPECT_EQ(count(node, {MilliCpu(1), MiB(1)}), 10) << "the card is full";
  EXPECT_EQ(count(node, {MilliCpu(400), MiB(1)}), 2);
  EXPECT_EQ(count(node, {MilliCpu(1), MiB(300)}), 3);
  node.pods_allowed = 1;
  EXPECT_EQ(count(node, {MilliCpu(1), MiB(1)}), 1);
}

TEST(Simulate, EndsAtItsBudget) {
  const GpuRequest request = test::request_of("10/10");
  Simulation simulation({test::node_of("n1: 0[100/1000]")}, request, {}, *find_policy("binpack"), 1,
                        nullptr);
  SearchBudget none{0};
  EXPECT_FALSE(simulation.begin(none, [] { return true; }));
  SearchBudget budget{kScoreStepsMax};
  EXPECT_FALSE(simulation.begin(budget, [] { return false; }));
}

TEST(Occupy, IsTheInverseOfAnEviction) {
  Node node = test::node_of("n1: 0[100/1000] 1[100/1000]");
  const std::vector<CardHold> pod = {{CardIndex(1), test::share_of("30/200")}};
  occupy(node, pod, {MilliCpu(100), MiB(10)});
  EXPECT_EQ(node.cards[1].used, test::share_of("30/200"));
  EXPECT_EQ(node.resources_used, (NodeResources{MilliCpu(100), MiB(10)}));
  EXPECT_EQ(node.pods_counted, 1);
}

}  // namespace
}  // namespace mgpu::extender
