#include "extender/web/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/support/kube_objects.h"
#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {

using namespace std::chrono_literals;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::Field;
using testing::Optional;

HistoryPoint at(std::int64_t unix_ms) {
  return {.unix_ms = unix_ms};
}

TEST(WebHistory, CountsWhatIsFreeAndWhere) {
  Ledger ledger;
  ledger.apply_node(test::facts_of("n1: 0[100/1000] 1[100/2000] 2[100/1000 unhealthy]"));
  ledger.apply_node(test::facts_of("n2: 0[100/1000]"));
  ledger.apply_pod(test::bound_claim("p", "n1", "30/300", "0"));
  const HistoryPoint point = current_point(ledger.reader(), 7);
  EXPECT_EQ(point.unix_ms, 7);
  EXPECT_THAT(point.core, Optional(7.5)) << "30 of 400";
  EXPECT_THAT(point.memory, Optional(6.0)) << "300 of 5000";
  EXPECT_THAT(point.core_in_parts, Optional(DoubleNear(25.926, 0.001)))
      << "70 of 270: nothing of the unhealthy card is free";
  EXPECT_THAT(point.cards_free, Optional(2.0));
  EXPECT_THAT(point.nodes_partly, Optional(1.0));
  EXPECT_THAT(point.pods, Optional(1.0));
}

TEST(WebHistory, RatiosOfNothingAreNotKnown) {
  const HistoryPoint point = current_point(Ledger().reader(), 7);
  EXPECT_EQ(points_json({&point, 1}), "[[7,null,null,null,0,0,0,null,null]]");
}

TEST(WebHistory, ReachesBackToItsBeginInLimitedMemory) {
  History history(8, 10s);
  for (int i = 0; i < 1000; ++i) {
    history.add(at(i));
    ASSERT_LE(history.points().size(), 8U);
    ASSERT_EQ(history.points().front().unix_ms, 0);
    ASSERT_EQ(history.points().back().unix_ms, i);
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
  EXPECT_THAT(history.points(),
              ElementsAre(Field(&HistoryPoint::unix_ms, 0), Field(&HistoryPoint::unix_ms, 2),
                          Field(&HistoryPoint::unix_ms, 4)));
}

}  // namespace
}  // namespace mgpu::extender
