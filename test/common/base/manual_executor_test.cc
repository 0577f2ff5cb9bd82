#include "test/support/manual_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace mgpu::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(ManualExecutor, RunsNothingByItself) {
  ManualExecutor executor;
  int ran = 0;
  executor.post([&] { ++ran; });
  executor.after(0ms, [&] { ++ran; });
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(executor.pending(), 2U);
  EXPECT_EQ(executor.run_ready(), 2U);
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(executor.pending(), 0U);
}

TEST(ManualExecutor, RunsTheTasksOfTasks) {
  ManualExecutor executor;
  std::vector<int> order;
  executor.post([&] {
    executor.post([&] { order.push_back(2); });
    executor.after(0ms, [&] { order.push_back(3); });
    order.push_back(1);
  });
  executor.run_ready();
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(ManualExecutor, TheClockMovesOnlyWhenAdvanced) {
  ManualExecutor executor;
  const Instant start = executor.now();
  executor.run_ready();
  EXPECT_EQ(executor.now(), start);
  executor.advance(5s);
  EXPECT_EQ(executor.now() - start, 5s);
}

TEST(ManualExecutor, RunsEachTimerAtItsTime) {
  ManualExecutor executor;
  const Instant start = executor.now();
  std::vector<std::pair<int, Duration>> order;
  const auto note = [&](int name) {
    return [&, name] { order.emplace_back(name, executor.now() - start); };
  };
  executor.after(30ms, note(3));
  executor.after(10ms, note(1));
  executor.after(20ms, note(2));
  executor.after(10ms, note(11));
  executor.after(41ms, note(4));
  EXPECT_EQ(executor.advance(40ms), 4U);
  using Entry = std::pair<int, Duration>;
  EXPECT_THAT(order, ElementsAre(Entry(1, 10ms), Entry(11, 10ms), Entry(2, 20ms), Entry(3, 30ms)));
  EXPECT_EQ(executor.now() - start, 40ms);
  EXPECT_EQ(executor.until_next_timer(), 1ms);
}

TEST(ManualExecutor, RunsATimerThatATimerAdds) {
  ManualExecutor executor;
  int ticks = 0;
  Task tick = [&] {
    ++ticks;
    executor.after(10ms, tick);
  };
  executor.after(10ms, tick);
  executor.advance(100ms);
  EXPECT_EQ(ticks, 10);
}

TEST(ManualExecutor, CancelDestroysTheTask) {
  ManualExecutor executor;
  auto owned = std::make_shared<int>(1);
  const auto id = executor.after(1s, [owned] { FAIL(); });
  executor.cancel(id);
  executor.cancel(id);
  executor.cancel(999);
  EXPECT_EQ(owned.use_count(), 1);
  EXPECT_EQ(executor.advance(2s), 0U);
}

TEST(ManualExecutor, AdvancesToTheNextTimer) {
  ManualExecutor executor;
  EXPECT_FALSE(executor.advance_to_next_timer());
  EXPECT_EQ(executor.until_next_timer(), std::nullopt);
  int ran = 0;
  executor.after(1h, [&] { ++ran; });
  executor.after(2h, [&] { ++ran; });
  EXPECT_TRUE(executor.advance_to_next_timer());
  EXPECT_EQ(ran, 1);
}

TEST(ManualExecutor, AcceptsTheLongestDelay) {
  ManualExecutor executor;
  executor.after(Duration::max(), [] { FAIL(); });
  executor.after(Duration::min(), [] {});
  EXPECT_EQ(executor.run_ready(), 1U);
}

TEST(ManualExecutor, ASeedHasOneSequence) {
  ManualExecutor a(7);
  ManualExecutor b(7);
  ManualExecutor c(8);
  const double first = a.random();
  EXPECT_EQ(first, b.random());
  EXPECT_NE(first, c.random());
  for (int i = 0; i < 1000; ++i) {
    const double value = a.random();
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
  }
}

TEST(ManualExecutor, AcceptsTasksFromOtherThreads) {
  ManualExecutor executor;
  int ran = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) executor.post([&] { ++ran; });
      executor.cancel(executor.after(1s, [] { FAIL(); }));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(executor.advance(2s), 400U);
  EXPECT_EQ(ran, 400);
}

TEST(ManualExecutor, TasksMayCallItFromTheirDestructors) {
  struct CallsBack {
    Executor* executor;
    ~CallsBack() { executor->cancel(1); }
  };
  ManualExecutor executor;
  executor.after(1s, [owned = std::shared_ptr<CallsBack>(new CallsBack{&executor})] { FAIL(); });
}

TEST(ManualExecutorDeathTest, MustNotRunWithinATask) {
  ManualExecutor executor;
  executor.post([&] { executor.run_ready(); });
  EXPECT_DEATH(executor.run_ready(), "from within a task");
}

}  // namespace
}  // namespace mgpu::test
