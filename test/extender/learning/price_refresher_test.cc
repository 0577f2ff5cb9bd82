#include "extender/learning/price_refresher.h"

#include <gtest/gtest.h>

#include <future>

#include "extender/learning/limits.h"
#include "test/support/ledger_text.h"
#include "test/support/manual_executor.h"

namespace mgpu::extender {
namespace {

using test::at_ms;
using test::facts_of;
using test::request_of;

constexpr Duration kTook{10};

RefreshState after(Duration since, std::uint64_t pods, std::uint64_t releases) {
  return {1'000 + pods, 50 + releases, at_ms(0) + since, Duration{0}};
}

TEST(IsWorthMaking, WhenEnoughHasChangedSinceTheLast) {
  const RefreshState last{1'000, 50, at_ms(0), kTook};
  const Duration rested = kTook * (kPriceRefreshRest + 1);
  const Duration old = kPriceAgeMax;
  EXPECT_FALSE(is_refresh_due(last, after(rested, 0, 0)));
  EXPECT_FALSE(is_refresh_due(last, after(old * 100, 0, 0))) << "nothing has changed";
  EXPECT_FALSE(is_refresh_due(last, after(rested, kPriceRefreshPods - 1, 0)));
  EXPECT_TRUE(is_refresh_due(last, after(rested, kPriceRefreshPods, 0)));
  EXPECT_TRUE(is_refresh_due(last, after(rested, 0, kPriceRefreshPods)));
  EXPECT_FALSE(is_refresh_due(last, after(old - Duration(1), 1, 1)));
  EXPECT_TRUE(is_refresh_due(last, after(old, 1, 0)));
  EXPECT_TRUE(is_refresh_due(last, after(old, 0, 1)));
}

TEST(IsWorthMaking, NotBeforeTheKeeperHasRested) {
  const RefreshState last{1'000, 50, at_ms(0), kTook};
  const Duration rested = kTook * (kPriceRefreshRest + 1);
  EXPECT_FALSE(is_refresh_due(last, after(rested - Duration(1), 5'000, 0)));
  EXPECT_TRUE(is_refresh_due(last, after(rested, 5'000, 0)));
}

TEST(IsWorthMaking, TheFirstAsSoonAsAPodIsSeen) {
  EXPECT_FALSE(is_refresh_due({}, {0, 3, at_ms(0), Duration{0}}));
  EXPECT_TRUE(is_refresh_due({}, {1, 3, at_ms(0), Duration{0}}));
}

struct KeeperTest : testing::Test {
  KeeperTest() { ledger.apply_node(facts_of("n1: 0[100/1000]")); }

  Ledger ledger;
  CurrentPrices board;
  WorkloadWindow window;
  test::ManualExecutor clock;
  std::promise<void> made;
};

TEST_F(KeeperTest, MakesAMarketOfWhatWasSeen) {
  window.seen(1, request_of("30/300"), {});
  PriceRefresher keeper(ledger, board, window, clock, [this](Duration) { made.set_value(); });
  EXPECT_EQ(board.current(), nullptr) << "not before it is started";
  keeper.start();
  keeper.start();
  made.get_future().wait();
  ASSERT_NE(board.current(), nullptr);
  EXPECT_EQ(board.current()->workload.classes.size(), 2U);
}

TEST_F(KeeperTest, EndsWhetherItWasStartedOrNot) {
  {
    const PriceRefresher keeper(ledger, board, window, clock, [](Duration) {});
  }
  {
    PriceRefresher keeper(ledger, board, window, clock, [](Duration) {});
    keeper.start();
  }
  EXPECT_EQ(board.current(), nullptr);
}

}  // namespace
}  // namespace mgpu::extender
