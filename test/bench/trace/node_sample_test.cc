#include "bench/trace/node_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mgpu::trace {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

bool any(std::size_t /*node*/) {
  return true;
}

// numFeasibleNodesToFind of kube-scheduler 1.36.3.
TEST(NodesToFind, ArePercentagesThatShrinkWithTheCluster) {
  const std::pair<std::size_t, std::size_t> cases[] = {
      {1, 1},      {99, 99},    {100, 100},  {200, 100},    {1000, 420},
      {1213, 497}, {5000, 500}, {6000, 300}, {15'000, 750},
  };
  for (const auto& [nodes, enough] : cases)
    EXPECT_EQ(nodes_to_find(Sampling::kKubeScheduler, nodes), enough) << nodes;
  EXPECT_EQ(nodes_to_find(Sampling::kAll, 5000), 5000u);
}

TEST(NodeSampler, BeginsWhereTheLastSampleEnded) {
  NodeSampler sampler(Sampling::kKubeScheduler, 250);
  EXPECT_EQ(sampler.next(any).passing.front(), 0u);
  const NodeSample second = sampler.next(any);
  EXPECT_EQ(second.passing.front(), 120u);
  EXPECT_EQ(second.examined, 120u);
  EXPECT_EQ(sampler.next(any).passing.back(), 109u) << "past the end of the list";
}

TEST(NodeSampler, ExaminesMoreNodesWhereSomeDoNotPass) {
  NodeSampler sampler(Sampling::kKubeScheduler, 250);
  const NodeSample sample = sampler.next([](std::size_t node) { return node % 2 == 1; });
  EXPECT_THAT(sample.passing, SizeIs(120));
  EXPECT_EQ(sample.examined, 240u);
}

TEST(NodeSampler, ExaminesEachNodeOnce) {
  NodeSampler sampler(Sampling::kKubeScheduler, 250);
  sampler.next(any);
  const NodeSample sample = sampler.next([](std::size_t node) { return node == 3; });
  EXPECT_THAT(sample.passing, ElementsAre(3));
  EXPECT_EQ(sample.examined, 250u);
}

}  // namespace
}  // namespace mgpu::trace
