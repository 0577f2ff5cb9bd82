#include "extender/use_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "test/support/ledger_text.h"
#include "test/support/manual_executor.h"
#include "test/support/price_snapshot_text.h"

namespace mgpu::extender {
namespace {

using mgpu::test::bound_claim;
using mgpu::test::facts_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct UseMetricsTest : testing::Test {
  void add_node(const char* node) { ledger.apply_node(facts_of(node)); }

  mgpu::test::ManualExecutor executor;
  Metrics metrics;
  Ledger ledger;
  RejectedPods rejected;
  CurrentPrices prices;
  UseMetrics use{metrics, ledger.reader(), rejected, prices, executor};
};

TEST_F(UseMetricsTest, ExportsTheUseOfTheCluster) {
  add_node("a: 0[100/1000] 1[100/1000]");
  add_node("b: 0[100/1000] 1[100/1000 unhealthy]");
  ledger.apply_pod(bound_claim("p", "a", "40/500", "0"));
  auto snapshot = std::make_shared<PriceSnapshot>();
  snapshot->target = TargetWorkload(test::workload_text("1 x whole"));
  prices.publish(snapshot);
  rejected.on_filter(PodUid("w"), Rejection::kFragmentation, executor.now());
  EXPECT_THAT(
      metrics.text(),
      AllOf(HasSubstr("mgpu_extender_compute_cards{state=\"allocated\"} 0.4"),
            HasSubstr("mgpu_extender_compute_cards{state=\"free\"} 2.6"),
            HasSubstr("mgpu_extender_compute_cards{state=\"unusable\"} 1\n"),
            HasSubstr("mgpu_extender_free_compute_on_used_cards 0.6\n"),
            HasSubstr("mgpu_extender_partly_used_nodes 1\n"),
            HasSubstr("mgpu_extender_free_cards 2\n"), HasSubstr("mgpu_extender_gpu_nodes 2\n"),
            HasSubstr("mgpu_extender_gpu_allocation_ratio 0.1\n"),
            HasSubstr("mgpu_extender_memory_allocation_ratio 0.125\n"),
            HasSubstr("mgpu_extender_gpu_node_fragmentation_ratio 0.5\n"),
            HasSubstr("mgpu_extender_fragmentation_ratio{of=\"all\"} 0.15"),
            HasSubstr("mgpu_extender_fragmentation_ratio{of=\"free\"} 0.23"),
            HasSubstr("mgpu_extender_rejected_pods{reason=\"fragmentation\"} 1\n"),
            HasSubstr("mgpu_extender_rejected_pods{reason=\"invalid\"} 0\n")));
}

TEST_F(UseMetricsTest, CountsWhatIsFreeOnMigDevicesByItself) {
  add_node("a: 0[100/1000] 1[100/1000 model=A100-MIG-1g.5gb]");
  EXPECT_THAT(metrics.text(),
              AllOf(HasSubstr("mgpu_extender_compute_cards{state=\"free\"} 1\n"),
                    HasSubstr("mgpu_extender_compute_cards{state=\"free_mig\"} 1\n"),
                    HasSubstr("mgpu_extender_compute_cards{state=\"unusable\"} 0\n"),
                    HasSubstr("mgpu_extender_free_cards 1\n")));
}

TEST_F(UseMetricsTest, WhatIsNotDefinedHasNoSeries) {
  EXPECT_THAT(metrics.text(),
              AllOf(HasSubstr("mgpu_extender_gpu_nodes 0\n"), Not(HasSubstr("_allocation_ratio")),
                    Not(HasSubstr("fragmentation_ratio"))));
}

TEST_F(UseMetricsTest, AnExpectedPlacementIsAllocatedUntilItsEnd) {
  add_node("a: 0[100/1000]");
  const Duration life{1'000};
  ledger.reservations().expect(PodUid("p"), NodeName("a"), test::request_of("40/500"),
                               test::placement_of("0"), executor.now(), executor.now() + life);
  EXPECT_THAT(metrics.text(), HasSubstr("mgpu_extender_gpu_allocation_ratio 0.4\n"));
  executor.advance(kUseInterval);
  EXPECT_THAT(metrics.text(), HasSubstr("mgpu_extender_gpu_allocation_ratio 0\n"));
}

// Whoever may read metrics may scrape as often as they like.
TEST_F(UseMetricsTest, ReadsTheNodesAtMostOnceInAnInterval) {
  add_node("a: 0[100/1000]");
  EXPECT_THAT(metrics.text(), HasSubstr("mgpu_extender_gpu_nodes 1\n"));
  add_node("b: 0[100/1000]");
  executor.advance(kUseInterval - Duration(1));
  EXPECT_THAT(metrics.text(), HasSubstr("mgpu_extender_gpu_nodes 1\n"));
  executor.advance(Duration(1));
  EXPECT_THAT(metrics.text(), HasSubstr("mgpu_extender_gpu_nodes 2\n"));
}

TEST_F(UseMetricsTest, TheStepsOfOneReadAreBounded) {
  for (int i = 0; i < 200; ++i) add_node(("n" + std::to_string(i) + ": 0[100/1000]").c_str());
  EXPECT_EQ(read_cluster_use(ledger.reader(), nullptr).nodes, 200U);
  EXPECT_EQ(read_cluster_use(ledger.reader(), nullptr, 501).nodes, 100U);
}

}  // namespace
}  // namespace mgpu::extender
