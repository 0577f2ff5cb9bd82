#include "common/base/asio_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

namespace mgpu {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// Waits until all tasks that were posted before have run.
void drain(Executor& executor) {
  std::promise<void> done;
  executor.post([&done] { done.set_value(); });
  done.get_future().wait();
}

TEST(AsioExecutor, RunsPostedTasksInOrderOnOneOtherThread) {
  AsioExecutor executor;
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  for (int i = 0; i < 100; ++i) {
    executor.post([&, i] {
      order.push_back(i);
      threads.push_back(std::this_thread::get_id());
    });
  }
  drain(executor);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
    EXPECT_EQ(threads[static_cast<std::size_t>(i)], threads[0]);
  }
  EXPECT_NE(threads[0], std::this_thread::get_id());
}

TEST(AsioExecutor, NeverRunsATaskInsidePostOrAfter) {
  AsioExecutor executor;
  std::vector<int> order;
  std::promise<void> done;
  executor.post([&] {
    executor.post([&] { order.push_back(2); });
    executor.after(milliseconds(0), [&] { done.set_value(); });
    order.push_back(1);
  });
  done.get_future().wait();
  EXPECT_THAT(order, testing::ElementsAre(1, 2));
}

TEST(AsioExecutor, RunsATimerAfterItsDelay) {
  AsioExecutor executor;
  std::promise<Instant> ran;
  const Instant start = executor.now();
  executor.after(milliseconds(20), [&] { ran.set_value(executor.now()); });
  EXPECT_GE(ran.get_future().get() - start, milliseconds(20));
}

TEST(AsioExecutor, RunsTimersInTheOrderOfTheirTimes) {
  AsioExecutor executor;
  std::vector<int> order;
  std::promise<void> done;
  executor.post([&] {  // all are added before one can run
    executor.after(milliseconds(300), [&] { done.set_value(); });
    executor.after(milliseconds(200), [&] { order.push_back(2); });
    executor.after(milliseconds(100), [&] { order.push_back(1); });
    executor.after(milliseconds(-5), [&] { order.push_back(0); });
  });
  done.get_future().wait();
  EXPECT_THAT(order, testing::ElementsAre(0, 1, 2));
}

TEST(AsioExecutor, CancelDestroysTheTaskAtOnce) {
  AsioExecutor executor;
  auto owned = std::make_shared<int>(1);
  const auto id = executor.after(hours(1), [owned] { FAIL(); });
  EXPECT_EQ(owned.use_count(), 2);
  executor.cancel(id);
  EXPECT_EQ(owned.use_count(), 1);
}

TEST(AsioExecutor, CancelIgnoresFinishedAndUnknownTimers) {
  AsioExecutor executor;
  std::promise<void> done;
  const auto id = executor.after(milliseconds(0), [&] { done.set_value(); });
  done.get_future().wait();
  executor.cancel(id);
  executor.cancel(12345);
  drain(executor);
}

TEST(AsioExecutor, ATimerMayCancelItself) {
  AsioExecutor executor;
  std::promise<void> done;
  std::atomic<Executor::TimerId> id = 0;
  executor.post([&] {
    id = executor.after(milliseconds(0), [&] {
      executor.cancel(id);
      done.set_value();
    });
  });
  done.get_future().wait();
  drain(executor);
}

TEST(AsioExecutor, AcceptsTheLongestDelay) {
  AsioExecutor executor;
  executor.after(Duration::max(), [] { FAIL(); });
  executor.after(Duration::min(), [] {});
  drain(executor);
}

TEST(AsioExecutor, TheDestructorDestroysPendingTasksWithoutRunningThem) {
  auto owned = std::make_shared<int>(1);
  {
    AsioExecutor executor;
    executor.post([&] {
      executor.stop();
      executor.post([owned] { FAIL(); });
      executor.after(milliseconds(0), [owned] { FAIL(); });
    });
    executor.after(hours(1), [owned] { FAIL(); });
  }
  EXPECT_EQ(owned.use_count(), 1);
}

// Calls its executor when it is destroyed, like a client with a pending request.
class CallsBack {
 public:
  explicit CallsBack(Executor& executor) : executor_(&executor) {}
  ~CallsBack() {
    executor_->cancel(1);
    executor_->post([] { FAIL(); });
    executor_->after(milliseconds(0), [] { FAIL(); });
    executor_->now();
    executor_->random();
  }

 private:
  Executor* executor_;
};

TEST(AsioExecutor, TasksMayCallItFromTheirDestructors) {
  AsioExecutor executor;
  executor.after(hours(1), [owned = std::make_shared<CallsBack>(executor)] { FAIL(); });
  executor.after(hours(1), [owned = std::make_shared<CallsBack>(executor)] { FAIL(); });
}

TEST(AsioExecutor, StopMayBeCalledFromAnywhereAndTwice) {
  AsioExecutor executor;
  executor.post([&] { executor.stop(); });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { executor.stop(); });
  for (std::thread& thread : threads) thread.join();
  executor.stop();
}

TEST(AsioExecutor, AcceptsTasksFromManyThreads) {
  std::atomic<int> ran = 0;
  std::promise<void> done;
  AsioExecutor executor;
  const auto count = [&] {
    if (++ran == 4 * 300) done.set_value();
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        executor.cancel(executor.after(hours(1), [] { FAIL(); }));
        if (executor.random() < 0.5) {
          executor.post(count);
        } else {
          executor.after(milliseconds(i % 3), count);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done.get_future().wait();
}

// A timer may be cancelled while it expires; it either runs or is cancelled.
TEST(AsioExecutor, ACancelledTaskNeverRunsLater) {
  AsioExecutor executor;
  for (int round = 0; round < 200; ++round) {
    auto runs = std::make_shared<std::atomic<int>>(0);
    const auto id = executor.after(milliseconds(round % 2), [runs] { ++*runs; });
    std::this_thread::yield();
    executor.cancel(id);
    drain(executor);
    const int after_cancel = *runs;
    drain(executor);
    EXPECT_EQ(*runs, after_cancel);
    EXPECT_LE(after_cancel, 1);
  }
}

TEST(AsioExecutor, RandomIsUniformFromZeroToOne) {
  AsioExecutor executor;
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double value = executor.random();
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
    sum += value;
  }
  EXPECT_NEAR(sum / 10'000, 0.5, 0.05);
}

TEST(AsioExecutorDeathTest, AnExceptionFromATaskTerminatesTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        AsioExecutor executor;
        executor.post([] { throw std::runtime_error("from a task"); });
        drain(executor);
      },
      "from a task");
}

TEST(AsioExecutorDeathTest, MustNotBeDestroyedByItsOwnTask) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        std::optional<AsioExecutor> executor(std::in_place);
        executor->post([&] { executor.reset(); });
        std::promise<void>().get_future().wait();
      },
      "destroyed by its own task");
}

}  // namespace
}  // namespace mgpu
