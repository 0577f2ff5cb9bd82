#include "extender/web/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/support/kube_objects.h"
#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {

using namespace std::chrono_literals;

Sample at(std::int64_t unix_ms) {
  return {.unix_ms = unix_ms};
}

TEST(WebHistory, CountsWhatIsFreeAndWhere) {
  Ledger ledger;
  ledger.apply_node(test::facts_of("n1: 0[100/1000] 1[100/2000] 2[100/1000 unhealthy]"));
  ledger.apply_node(test::facts_of("n2: 0[100/1000]"));
  ledger.apply_pod(test::bound_claim("p", "n1", "30/300", "0"));
  const Sample sample = sample_of(ledger, 7);
  EXPECT_EQ(sample.unix_ms, 7);
  EXPECT_EQ(sample.core, 400);
  EXPECT_EQ(sample.core_used, 30);
  EXPECT_EQ(sample.core_free, 270) << "nothing of the unhealthy card is free";
  EXPECT_EQ(sample.core_free_in_parts, 70);
  EXPECT_EQ(sample.memory, 5000);
  EXPECT_EQ(sample.memory_used, 300);
  EXPECT_EQ(sample.cards_free, 2);
  EXPECT_EQ(sample.nodes_partly, 1);
  EXPECT_EQ(sample.pods, 1);
}

TEST(WebHistory, ReachesBackToItsBeginInLimitedMemory) {
  History history(8, 10s);
  for (int i = 0; i < 1000; ++i) {
    history.add(at(i));
    ASSERT_LE(history.samples().size(), 8U);
    ASSERT_EQ(history.samples().front().unix_ms, 0);
    ASSERT_EQ(history.samples().back().unix_ms, i);
  }
}

TEST(WebHistory, HalvesItsPlacesAndItsRateWhenItIsFull) {
  History history(4, 10s);
  for (int i = 0; i < 4; ++i) history.add(at(i));
  EXPECT_EQ(history.interval(), 10s);
  EXPECT_EQ(history.thinned(), 0U);
  history.add(at(4));
  EXPECT_EQ(history.interval(), 20s);
  EXPECT_EQ(history.thinned(), 1U);
  EXPECT_EQ(history.json(0), "[[0,0,0,0,0,0,0,0,0,0],[2,0,0,0,0,0,0,0,0,0],[4,0,0,0,0,0,0,0,0,0]]");
  EXPECT_EQ(history.json(2), "[[4,0,0,0,0,0,0,0,0,0]]");
}

}  // namespace
}  // namespace mgpu::extender
