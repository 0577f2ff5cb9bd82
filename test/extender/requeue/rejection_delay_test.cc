#include "extender/requeue/rejection_delay.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "extender/requeue/limits.h"
#include "test/support/manual_executor.h"

namespace mgpu::extender {
namespace {

constexpr Duration kMoment{1};

class RejectionDelayTest : public ::testing::Test {
 protected:
  // A call of filter, for a pod that fits once `fits` is set.
  struct Call {
    bool fits = false;
    std::optional<bool> answer;
    int runs = 0;
  };

  std::shared_ptr<Call> filter(const char* pod, bool fits = false) {
    auto call = std::make_shared<Call>();
    call->fits = fits;
    const auto decide = [call] {
      ++call->runs;
      return call->fits ? Next::kAnswer : Next::kWait;
    };
    delay_.run(PodUid(pod), decide, [call] { call->answer = call->fits; });
    return call;
  }

  void observe(std::uint64_t releases) {
    delay_.observe(releases);
    executor_.run_ready();
  }

  test::ManualExecutor executor_;
  RejectionDelay delay_{executor_};
};

TEST_F(RejectionDelayTest, ARejectionWaitsForAReleaseAndIsAnsweredWithoutOne) {
  const auto call = filter("a");
  EXPECT_FALSE(call->answer);
  executor_.advance(kRejectionDelay - kMoment);
  EXPECT_FALSE(call->answer);
  executor_.advance(kMoment);
  EXPECT_EQ(call->answer, false);
}

TEST_F(RejectionDelayTest, IsAnsweredAtOnceAfterAReleaseThatMakesThePodFit) {
  const auto call = filter("a");
  executor_.advance(kMoment);
  call->fits = true;
  observe(1);
  EXPECT_EQ(call->answer, true);
  executor_.advance(kRejectionDelayMax);
  EXPECT_EQ(call->runs, 2);
}

// The thread that sees a release also has binds.
TEST_F(RejectionDelayTest, OnlyTheExecutorFiltersAgainOnceForReleasesThatFollowEachOther) {
  const auto call = filter("a");
  for (std::uint64_t releases = 1; releases <= 3; ++releases) delay_.observe(releases);
  EXPECT_EQ(call->runs, 1);
  executor_.run_ready();
  EXPECT_EQ(call->runs, 2);
  observe(4);
  EXPECT_EQ(call->runs, 3);
}

TEST_F(RejectionDelayTest, AReleaseWhileThePodIsFilteredIsNotMissed) {
  int runs = 0;
  int answers = 0;
  const auto decide = [&] {
    if (++runs == 2) delay_.observe(2);
    return runs == 3 ? Next::kAnswer : Next::kWait;
  };
  delay_.run(PodUid("a"), decide, [&] { ++answers; });
  delay_.observe(1);
  executor_.run_ready();
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(answers, 1);
}

TEST_F(RejectionDelayTest, WaitsLongerAfterAReleaseThatDoesNotHelp) {
  const auto call = filter("a");
  executor_.advance(kRejectionDelay - kMoment);
  observe(1);
  executor_.advance(kMoment);
  EXPECT_FALSE(call->answer);
  call->fits = true;
  observe(2);
  EXPECT_EQ(call->answer, true);
}

TEST_F(RejectionDelayTest, ManyReleasesDoNotDelayARejectionForever) {
  const auto call = filter("a");
  std::uint64_t releases = 0;
  for (Duration waited{0}; waited < kRejectionDelayMax; waited += kMoment) {
    EXPECT_FALSE(call->answer) << waited.count();
    observe(++releases);
    executor_.advance(kMoment);
  }
  EXPECT_EQ(call->answer, false);
}

TEST_F(RejectionDelayTest, AReleaseDuringTheFirstDecisionIsNotMissed) {
  int runs = 0;
  bool answered = false;
  const auto decide = [&] {
    if (++runs == 2) return Next::kAnswer;
    delay_.observe(1);
    return Next::kWait;
  };
  delay_.run(PodUid("a"), decide, [&] { answered = true; });
  executor_.run_ready();
  EXPECT_TRUE(answered);
}

TEST_F(RejectionDelayTest, APodFilteredAgainLongAfterAReleaseIsAnsweredAtOnce) {
  filter("a");
  executor_.advance(kRejectionDelay);
  observe(1);
  executor_.advance(kRejectionDelay);
  EXPECT_EQ(filter("a")->answer, false);
}

TEST_F(RejectionDelayTest, APodFilteredAgainWithoutAReleaseIsDelayedAgain) {
  filter("a");
  executor_.advance(kRejectionDelay);
  EXPECT_FALSE(filter("a")->answer);
}

TEST_F(RejectionDelayTest, APodThatFitsIsNotDelayed) {
  EXPECT_EQ(filter("a", true)->answer, true);
  EXPECT_EQ(executor_.pending(), 0u);
}

TEST_F(RejectionDelayTest, AllDelaysTogetherStayWithinTheAllowance) {
  const Instant begin = executor_.now();
  Duration delayed{0};
  while (executor_.now() - begin < std::chrono::minutes(10)) {
    const Instant start = executor_.now();
    const auto call = filter("a");
    while (!call->answer) executor_.advance(kMoment);
    delayed += executor_.now() - start;
    executor_.advance(kMoment);
  }
  const Duration all = executor_.now() - begin;
  EXPECT_LE(delayed,
            all * kRejectionDelayPercent / 100 + kRejectionDelayAllowance + kRejectionDelayMax);
  EXPECT_GT(delayed, Duration(0));
}

TEST_F(RejectionDelayTest, TheNumberOfDelayedRejectionsIsBounded) {
  for (std::size_t i = 0; i < kDelayedRejectionsMax; ++i)
    EXPECT_FALSE(filter(std::to_string(i).c_str())->answer);
  EXPECT_EQ(filter("one more")->answer, false);
}

TEST(RejectionDelay, RunsNoCallbackAfterItsEnd) {
  test::ManualExecutor executor;
  int calls = 0;
  {
    RejectionDelay delay(executor);
    const auto decide = [&] {
      ++calls;
      return Next::kWait;
    };
    delay.run(PodUid("a"), decide, [&] { ++calls; });
  }
  executor.advance(kRejectionDelayMax);
  EXPECT_EQ(calls, 1) << "the first decision";
}

}  // namespace
}  // namespace mgpu::extender
