#include "plugin/cards/driver_thread.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

namespace mgpu::plugin {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(DriverThread, RunsTheWorkAndReportsItsEnd) {
  DriverThread thread;
  int done = 0;
  EXPECT_TRUE(thread.wait(milliseconds(0)));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(thread.start([&] { ++done; }));
    ASSERT_TRUE(thread.wait(hours(1)));
  }
  EXPECT_EQ(done, 3);
}

TEST(DriverThread, RefusesWorkWhileItIsBusy) {
  DriverThread thread;
  std::promise<void> end;
  ASSERT_TRUE(thread.start([&] { end.get_future().wait(); }));
  EXPECT_FALSE(thread.start([] { FAIL(); }));
  EXPECT_FALSE(thread.wait(milliseconds(1)));
  end.set_value();
  EXPECT_TRUE(thread.wait(hours(1)));
}

TEST(DriverThread, InterruptsTheCurrentWaitOrTheNext) {
  DriverThread thread;
  EXPECT_FALSE(thread.wait_for_interrupt(milliseconds(1), false));
  thread.interrupt();
  EXPECT_TRUE(thread.wait_for_interrupt(hours(1), false));
  EXPECT_FALSE(thread.wait_for_interrupt(milliseconds(1), false));
  std::thread other([&] { thread.interrupt(); });
  EXPECT_TRUE(thread.wait_for_interrupt(hours(1), false));
  other.join();
}

TEST(DriverThread, EndsAWaitWhenTheWorkEnds) {
  DriverThread thread;
  EXPECT_FALSE(thread.wait_for_interrupt(hours(1), true));
  std::atomic<bool> done = false;
  ASSERT_TRUE(thread.start([&] { done = true; }));
  EXPECT_FALSE(thread.wait_for_interrupt(hours(1), true));
  EXPECT_TRUE(done);
}

TEST(DriverThread, AbandonsWorkThatHangs) {
  const auto end_with_hanging_work = [] {
    {
      DriverThread thread;
      thread.start([] { std::promise<void>().get_future().wait(); });
    }
    ::_exit(7);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_with_hanging_work(), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace mgpu::plugin
