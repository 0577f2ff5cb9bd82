#include "extender/bind/binds_in_flight.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "extender/bind/limits.h"
#include "test/support/manual_executor.h"

namespace mgpu::extender {
namespace {

constexpr Duration kMoment{1};

class BindsInFlightTest : public ::testing::Test {
 protected:
  void begin(std::size_t binds) {
    for (std::size_t i = 0; i < binds; ++i) binds_->begin();
  }
  void end_one() {
    binds_->end(true);
    executor_.run_ready();
  }
  // A call of filter, which may cause a bind.
  void filter(int number, bool binds = false) {
    binds_->when_few([this, number, binds] {
      ran_.push_back(number);
      if (binds) binds_->begin();
    });
    executor_.run_ready();
  }

  test::ManualExecutor executor_;
  int delayed_ = 0;
  std::unique_ptr<BindsInFlight> binds_ =
      std::make_unique<BindsInFlight>(executor_, [this] { ++delayed_; });
  std::vector<int> ran_;
};

TEST_F(BindsInFlightTest, FilterRunsAtOnceWhileThereAreFew) {
  begin(kBindsBeforeDelay - 1);
  bool ran = false;
  binds_->when_few([&ran] { ran = true; });
  EXPECT_TRUE(ran) << "without a task of the executor";
  EXPECT_EQ(delayed_, 0);
}

TEST_F(BindsInFlightTest, FilterRunsAfterABindHasEnded) {
  begin(kBindsBeforeDelay);
  filter(1);
  EXPECT_EQ(ran_, std::vector<int>{});
  EXPECT_EQ(delayed_, 1);
  end_one();
  EXPECT_EQ(ran_, std::vector{1});
  executor_.advance(2 * Duration(kFilterDelayMax));
  EXPECT_EQ(ran_, std::vector{1}) << "once";
}

TEST_F(BindsInFlightTest, FilterWaitsUntilThereAreFewAgain) {
  begin(kBindsBeforeDelay + 1);
  filter(1);
  end_one();
  EXPECT_EQ(ran_, std::vector<int>{});
  end_one();
  EXPECT_EQ(ran_, std::vector{1});
}

class BindsPerPeriod : public BindsInFlightTest {
 protected:
  // As many binds as this end in the period, and one in the next, which shows its rate.
  void end_in_a_period(std::size_t binds) {
    executor_.advance(Duration(kBindsDelayed));
    begin(binds + 1);
    for (std::size_t i = 0; i < binds; ++i) binds_->end(true);
    executor_.advance(Duration(kBindsDelayed));
    end_one();
  }
  bool is_delayed_with(std::size_t binds) {
    begin(binds);
    const int before = delayed_;
    filter(1);
    for (std::size_t i = 0; i < binds; ++i) end_one();
    return delayed_ > before;
  }
};

TEST_F(BindsPerPeriod, ManyThatEndAllowAsManyInFlight) {
  constexpr std::size_t kMany = kBindsBeforeDelay + 50;
  end_in_a_period(kMany);
  EXPECT_FALSE(is_delayed_with(kMany - 1));
  EXPECT_TRUE(is_delayed_with(kMany));
}

TEST_F(BindsPerPeriod, ThereIsAMostThatIsAllowed) {
  end_in_a_period(4 * kBindsBeforeDelayMax);
  EXPECT_FALSE(is_delayed_with(kBindsBeforeDelayMax - 1));
  EXPECT_TRUE(is_delayed_with(kBindsBeforeDelayMax));
}

TEST_F(BindsPerPeriod, FewThatEndAllowNoFewerThanAtTheBeginning) {
  end_in_a_period(3);
  EXPECT_FALSE(is_delayed_with(kBindsBeforeDelay - 1));
}

TEST_F(BindsPerPeriod, ThoseThatAreNotBoundAllowNone) {
  executor_.advance(Duration(kBindsDelayed));
  begin(kBindsBeforeDelayMax);
  for (std::size_t i = 1; i < kBindsBeforeDelayMax; ++i) binds_->end(false);
  executor_.advance(Duration(kBindsDelayed));
  end_one();
  EXPECT_TRUE(is_delayed_with(kBindsBeforeDelay));
}

TEST_F(BindsPerPeriod, AfterAPeriodWithoutAnEndTheRateCountsNoMore) {
  end_in_a_period(kBindsBeforeDelayMax);
  begin(1);
  executor_.advance(2 * Duration(kBindsDelayed));
  end_one();
  EXPECT_TRUE(is_delayed_with(kBindsBeforeDelay));
}

TEST_F(BindsInFlightTest, FilterRunsWithoutTheEndOfABindAfterItsLimit) {
  begin(kBindsBeforeDelay);
  filter(1);
  executor_.advance(Duration(kFilterDelayMax) - kMoment);
  EXPECT_EQ(ran_, std::vector<int>{});
  executor_.advance(kMoment);
  EXPECT_EQ(ran_, std::vector{1});
  end_one();
  EXPECT_EQ(ran_, std::vector{1}) << "once";
}

TEST_F(BindsInFlightTest, FiltersRunInTheirOrderUntilThereAreManyBindsAgain) {
  begin(kBindsBeforeDelay);
  filter(1);
  filter(2, /*binds=*/true);
  filter(3);
  end_one();
  EXPECT_EQ(ran_, (std::vector{1, 2}));
  end_one();
  EXPECT_EQ(ran_, (std::vector{1, 2, 3}));
}

TEST_F(BindsInFlightTest, ABindThatEndsBeforeTheDelayBeginsIsNotMissed) {
  begin(kBindsBeforeDelay);
  binds_->when_few([this] { ran_.push_back(1); });
  binds_->end(true);
  executor_.run_ready();
  EXPECT_EQ(ran_, std::vector{1});
}

TEST_F(BindsInFlightTest, NoMoreFiltersThanTheLimitAreDelayed) {
  begin(kBindsBeforeDelay);
  for (std::size_t i = 0; i < kDelayedFiltersMax; ++i) filter(1);
  EXPECT_EQ(ran_, std::vector<int>{});
  filter(2);
  EXPECT_EQ(ran_, std::vector{2});
}

TEST_F(BindsInFlightTest, AFilterMayEndIt) {
  begin(kBindsBeforeDelay);
  binds_->when_few([this] { binds_.reset(); });
  filter(2);
  end_one();
  EXPECT_EQ(binds_, nullptr);
  EXPECT_EQ(ran_, std::vector<int>{});
}

TEST_F(BindsInFlightTest, NoFilterRunsAfterItsEnd) {
  begin(kBindsBeforeDelay);
  filter(1);
  binds_.reset();
  executor_.advance(2 * Duration(kFilterDelayMax));
  EXPECT_EQ(ran_, std::vector<int>{});
}

}  // namespace
}  // namespace mgpu::extender
