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

TEST(IsRefreshDue, WhenEnoughHasChangedSinceTheLast) {
  const RefreshState last{1'000, 50, at_ms(0), kTook};
  const Duration waited = kTook * (kPriceRefreshRest + 1);
  const Duration old = kPriceAgeMax;
  EXPECT_FALSE(is_refresh_due(last, after(waited, 0, 0)));
  EXPECT_FALSE(is_refresh_due(last, after(old * 100, 0, 0))) << "nothing has changed";
  EXPECT_FALSE(is_refresh_due(last, after(waited, kPriceRefreshPods - 1, 0)));
  EXPECT_TRUE(is_refresh_due(last, after(waited, kPriceRefreshPods, 0)));
  EXPECT_TRUE(is_refresh_due(last, after(waited, 0, kPriceRefreshPods)));
  EXPECT_FALSE(is_refresh_due(last, after(old - Duration(1), 1, 1)));
  EXPECT_TRUE(is_refresh_due(last, after(old, 1, 0)));
  EXPECT_TRUE(is_refresh_due(last, after(old, 0, 1)));
}

TEST(IsRefreshDue, NotBeforeTheWaitIsOver) {
  const RefreshState last{1'000, 50, at_ms(0), kTook};
  const Duration waited = kTook * (kPriceRefreshRest + 1);
  EXPECT_FALSE(is_refresh_due(last, after(waited - Duration(1), 5'000, 0)));
  EXPECT_TRUE(is_refresh_due(last, after(waited, 5'000, 0)));
}

TEST(IsRefreshDue, TheFirstAsSoonAsAPodIsSeen) {
  EXPECT_FALSE(is_refresh_due({}, {0, 3, at_ms(0), Duration{0}}));
  EXPECT_TRUE(is_refresh_due({}, {1, 3, at_ms(0), Duration{0}}));
}

struct PriceRefresherTest : testing::Test {
  PriceRefresherTest() { ledger.apply_node(facts_of("n1: 0[100/1000]")); }

  Ledger ledger;
  CurrentPrices current_prices;
  WorkloadWindow window;
  test::ManualExecutor clock;
  std::promise<void> refreshed;
};

TEST_F(PriceRefresherTest, PublishesPricesOfThePodsSeen) {
  window.seen(1, "a", request_of("30/300"), {});
  PriceRefresher refresher(ledger, current_prices, window, clock,
                           [this](Duration) { refreshed.set_value(); });
  EXPECT_EQ(current_prices.current(), nullptr) << "not before it is started";
  refresher.start();
  refresher.start();
  refreshed.get_future().wait();
  ASSERT_NE(current_prices.current(), nullptr);
  EXPECT_EQ(current_prices.current()->workload.classes.size(), 2U);
}

TEST_F(PriceRefresherTest, EndsWhetherItWasStartedOrNot) {
  {
    const PriceRefresher refresher(ledger, current_prices, window, clock, [](Duration) {});
  }
  {
    PriceRefresher refresher(ledger, current_prices, window, clock, [](Duration) {});
    refresher.start();
  }
  EXPECT_EQ(current_prices.current(), nullptr);
}

}  // namespace
}  // namespace mgpu::extender
