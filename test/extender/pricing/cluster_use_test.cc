#include "extender/pricing/cluster_use.h"

#include <gtest/gtest.h>

#include "test/support/cluster_text.h"
#include "test/support/fragmentation.h"
#include "test/support/price_snapshot_text.h"

namespace mgpu::extender {
namespace {

using test::node_of;
using test::workload_text;

ClusterUse use_of(const std::vector<const char*>& nodes, const TargetWorkload* target = nullptr) {
  ClusterUse use;
  for (const char* node : nodes) use.add(node_of(node), target);
  return use;
}

TEST(ClusterUse, AllocationIsThePartOfAllCards) {
  // 100 + 60 + 0 + 0 of 400 percent, and 1000 + 300 + 0 + 0 of 4000 MiB.
  const ClusterUse use = use_of({"a: 0[0/0 of 1000] 1[40/700 of 1000]", "b: 0[100/1000]",
                                 "c: 0[100/1000 unhealthy]", "without-cards:"});
  EXPECT_EQ(use.gpu_allocation_ratio(), 0.4);
  EXPECT_EQ(use.memory_allocation_ratio(), 0.325);
  EXPECT_EQ(use.nodes, 3U);
  EXPECT_EQ(use.cards, 4U);
  EXPECT_EQ(use.cards_free, 1U);
  EXPECT_EQ(use.core_allocated, 160);
  EXPECT_EQ(use.core_free, 140) << "an unhealthy card has nothing free";
  EXPECT_EQ(use.core_free_in_parts, 40);
  EXPECT_EQ(use.nodes_partly_used, 0U) << "both cards of a are used, and those of the others free";
}

TEST(ClusterUse, AnExpectedPlacementIsAllocated) {
  const ClusterUse use = use_of({"a: 0[100/1000 expected=30/400] 1[100/1000]"});
  EXPECT_EQ(use.gpu_allocation_ratio(), 0.15);
  EXPECT_EQ(use.core_free_in_parts, 70);
  EXPECT_EQ(use.nodes_partly_used, 1U);
  EXPECT_EQ(use.memory_allocation_ratio(), 0.2);
  EXPECT_EQ(use.cards_free, 1U);
}

TEST(ClusterUse, AnOverfullCardCountsAsFull) {
  const ClusterUse use = use_of({"a: 0[100/1000 used=300/5000] 1[100/1000]"});
  EXPECT_EQ(use.gpu_allocation_ratio(), 0.5);
  EXPECT_EQ(use.memory_allocation_ratio(), 0.5);
}

// Most pods cannot have what is free on them.
TEST(ClusterUse, MigDevicesAreNoFreeCards) {
  const ClusterUse use =
      use_of({"a: 0[100/1000] 1[100/5 model=A100-MIG-1g.5gb] "
              "2[60/3 of 5 model=A100-MIG-1g.5gb] 3[70/700 of 1000]"});
  EXPECT_EQ(use.cards, 4U);
  EXPECT_EQ(use.cards_free, 1U);
  EXPECT_EQ(use.core_free, 330);
  EXPECT_EQ(use.core_free_mig, 160);
  EXPECT_EQ(use.core_free_in_parts, 70);
  EXPECT_EQ(use.free_in_parts_ratio(), 70.0 / 170);
}

TEST(ClusterUse, ComputeThatIsOversubscribedIsPartOfAll) {
  Node node = node_of("a: 0[100/1000] 1[100/1000]");
  node.cards[0].capacity.core = Percent(200);
  node.cards[0].used.core = Percent(150);
  ClusterUse use;
  use.add(node, nullptr);
  EXPECT_EQ(use.core, 300);
  EXPECT_EQ(use.gpu_allocation_ratio(), 0.5);
  EXPECT_EQ(use.core_free, 150);
}

TEST(ClusterUse, APartlyAllocatedNodeIsFragmented) {
  struct {
    const char* node;
    double ratio;
  } const cases[] = {
      {"a: 0[100/1000] 1[100/1000]", 0},
      {"a: 0[0/0 of 1000] 1[0/0 of 1000]", 0},
      {"a: 0[0/0 of 1000] 1[100/1000]", 1},
      {"a: 0[1/1000]", 1},
      {"a: 0[0/0 of 1000] 1[100/1000 unhealthy]", 0},
      {"a: 0[0/500 of 1000]", 0},
  };
  for (const auto& one : cases)
    EXPECT_EQ(use_of({one.node}).gpu_node_fragmentation_ratio(), one.ratio) << one.node;
  EXPECT_EQ(use_of({"a: 0[50/1000]", "b: 0[100/1000]", "c: 0[100/1000]", "d: 0[50/1000]", "e:"})
                .gpu_node_fragmentation_ratio(),
            0.5);
}

TEST(ClusterUse, FragmentationIsTheMeasureOfFgd) {
  const Workload workload = workload_text("3 x 50/1000, 1 x wholex2");
  const TargetWorkload target(workload);
  const std::vector<const char*> nodes = {"a: 0[40/1000] 1[100/1000]", "b: 0[0/0 of 1000] 1[60/1]",
                                          "c: 0[100/1000] 1[100/1000] 2[20/100]"};
  const ClusterUse use = use_of(nodes, &target);
  double milli = 0;
  for (const char* node : nodes) milli += test::expected_fragmentation(node_of(node), workload);
  EXPECT_GT(milli, 0);
  EXPECT_NEAR(use.fragmented, milli / 1000, 1e-9);
  EXPECT_NEAR(use.fragmentation_amount().value(), milli / 7000, 1e-9);
  EXPECT_NEAR(use.fragmentation_rate().value(), milli / 4200, 1e-9);
}

TEST(ClusterUse, WhatIsNotDefinedHasNoValue) {
  const ClusterUse none = use_of({});
  EXPECT_FALSE(none.gpu_allocation_ratio());
  EXPECT_FALSE(none.memory_allocation_ratio());
  EXPECT_FALSE(none.gpu_node_fragmentation_ratio());
  const TargetWorkload unknown;
  for (const TargetWorkload* target : {static_cast<const TargetWorkload*>(nullptr), &unknown}) {
    EXPECT_FALSE(use_of({"a: 0[50/1000]"}, target).fragmentation_amount());
    EXPECT_FALSE(use_of({"a: 0[50/1000]"}, target).fragmentation_rate());
  }
  const TargetWorkload target(workload_text("1 x 50/1000"));
  const ClusterUse full = use_of({"a: 0[0/0 of 1000]"}, &target);
  EXPECT_EQ(full.fragmentation_amount(), 0);
  EXPECT_FALSE(full.fragmentation_rate()) << "it would be a part of nothing";
}

}  // namespace
}  // namespace mgpu::extender
