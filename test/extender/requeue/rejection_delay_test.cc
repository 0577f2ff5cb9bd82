#include "extender/requeue/rejection_delay.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "extender/requeue/limits.h"
#include "test/support/manual_executor.h"

namespace mgpu::extender {
namespace {

constexpr Duration kBlink{1};

class HeldRefusalsTest : public ::testing::Test {
 protected:
  // A filter of a pod: fits once `fits` is set.
  struct Question {
    bool fits = false;
    std::optional<bool> answer;
    int decided = 0;
  };

  // As the filter route does: decide, and hold what is refused.
  std::shared_ptr<Question> context(const char* pod, bool fits = false) {
    auto question = std::make_shared<Question>();
    question->fits = fits;
    const auto decide = [question](bool last) {
      ++question->decided;
      if (!question->fits && !last) return false;
      question->answer = question->fits;
      return true;
    };
    const std::uint64_t before = held_.releases();
    if (!decide(false) && !held_.hold(PodUid(pod), before, decide)) decide(true);
    return question;
  }

  test::ManualExecutor executor_;
  RejectionDelay held_{executor_};
};

TEST_F(HeldRefusalsTest, ARefusalWaitsForNewsAndIsAnsweredWithoutIt) {
  const auto question = context("a");
  EXPECT_FALSE(question->answer);
  executor_.advance(kRejectionDelay - kBlink);
  EXPECT_FALSE(question->answer);
  executor_.advance(kBlink);
  EXPECT_EQ(question->answer, false);
}

TEST_F(HeldRefusalsTest, AReleaseThatMakesRoomAnswersAtOnce) {
  const auto question = context("a");
  executor_.advance(kBlink);
  question->fits = true;
  held_.observe(1);
  EXPECT_EQ(question->answer, true);
  executor_.advance(kRejectionDelayMax);
  EXPECT_EQ(question->decided, 2);
}

TEST_F(HeldRefusalsTest, AReleaseElsewhereIsWaitedOutInCaseAnotherFollows) {
  const auto question = context("a");
  executor_.advance(kRejectionDelay - kBlink);
  held_.observe(1);
  executor_.advance(kBlink);
  EXPECT_FALSE(question->answer);
  question->fits = true;
  held_.observe(2);
  EXPECT_EQ(question->answer, true);
}

TEST_F(HeldRefusalsTest, ReleasesWithoutEndDoNotHoldARefusalForEver) {
  const auto question = context("a");
  std::uint64_t releases = 0;
  for (Duration waited{0}; waited < kRejectionDelayMax; waited += kBlink) {
    EXPECT_FALSE(question->answer) << waited.count();
    held_.observe(++releases);
    executor_.advance(kBlink);
  }
  EXPECT_EQ(question->answer, false);
}

TEST_F(HeldRefusalsTest, AReleaseBetweenDecisionAndHoldIsNotMissed) {
  auto question = std::make_shared<Question>();
  const std::uint64_t before = held_.releases();
  held_.observe(1);
  ASSERT_TRUE(held_.hold(PodUid("a"), before, [question](bool) {
    question->answer = true;
    return true;
  }));
  executor_.run_ready();
  EXPECT_EQ(question->answer, true);
}

TEST_F(HeldRefusalsTest, APodAskedAgainAfterAReleaseLongSeenIsAnsweredAtOnce) {
  context("a");
  executor_.advance(kRejectionDelay);
  held_.observe(1);
  executor_.advance(kRejectionDelay);
  EXPECT_EQ(context("a")->answer, false);
}

TEST_F(HeldRefusalsTest, APodAskedAgainWithoutAnyReleaseIsHeldAgain) {
  context("a");
  executor_.advance(kRejectionDelay);
  EXPECT_FALSE(context("a")->answer);
}

TEST_F(HeldRefusalsTest, AFittingPodIsNeverHeld) {
  EXPECT_EQ(context("a", true)->answer, true);
  EXPECT_EQ(executor_.pending(), 0u);
}

TEST_F(HeldRefusalsTest, HoldingStaysWithinItsPartOfTheTime) {
  const Instant begun = executor_.now();
  Duration held{0};
  while (executor_.now() - begun < std::chrono::minutes(10)) {
    const Instant asked = executor_.now();
    const auto question = context("a");
    while (!question->answer) executor_.advance(kBlink);
    held += executor_.now() - asked;
    executor_.advance(kBlink);
  }
  const Duration all = executor_.now() - begun;
  EXPECT_LE(held,
            all * kRejectionDelayPercent / 100 + kRejectionDelayAllowance + kRejectionDelayMax);
  EXPECT_GT(held, Duration(0));
}

TEST_F(HeldRefusalsTest, HowManyAreHeldAtOnceHasABound) {
  for (std::size_t i = 0; i < kDelayedRejectionsMax; ++i)
    EXPECT_FALSE(context(std::to_string(i).c_str())->answer);
  EXPECT_EQ(context("one more")->answer, false);
}

TEST(RejectionDelay, NobodyIsCalledOnceItIsGone) {
  test::ManualExecutor executor;
  int calls = 0;
  {
    RejectionDelay held(executor);
    held.hold(PodUid("a"), 0, [&](bool) {
      ++calls;
      return true;
    });
  }
  executor.advance(kRejectionDelayMax);
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace mgpu::extender
