#include "extender/requeue/rejected_pods.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "extender/requeue/limits.h"

namespace mgpu::extender {
namespace {

using testing::ElementsAre;

struct RejectedPodsTest : testing::Test {
  void filtered(const char* uid, std::optional<Rejection> rejection) {
    pods.on_filter(PodUid(uid), rejection, now);
  }

  RejectedPods pods;
  Instant now{};
};

TEST_F(RejectedPodsTest, APodCountsByItsLastRejection) {
  filtered("a", Rejection::kFragmentation);
  filtered("b", Rejection::kFragmentation);
  filtered("c", Rejection::kInvalid);
  EXPECT_THAT(pods.counts(now), ElementsAre(2, 0, 0, 0, 1));
  filtered("b", Rejection::kUnhealthy);
  EXPECT_THAT(pods.counts(now), ElementsAre(1, 0, 1, 0, 1));
}

TEST_F(RejectedPodsTest, APodThatFitsOrIsSettledDoesNotCount) {
  filtered("a", Rejection::kKept);
  filtered("b", Rejection::kNeverFits);
  filtered("a", std::nullopt);
  pods.on_settled(PodUid("b"));
  pods.on_settled(PodUid("never seen"));
  EXPECT_THAT(pods.counts(now), ElementsAre(0, 0, 0, 0, 0));
}

// kube-scheduler filters a pending pod again within this time.
TEST_F(RejectedPodsTest, APodThatIsNotFilteredAgainNoLongerExists) {
  filtered("a", Rejection::kFragmentation);
  now += kRejectedPodLife;
  filtered("b", Rejection::kFragmentation);
  EXPECT_THAT(pods.counts(now), ElementsAre(2, 0, 0, 0, 0));
  now += Duration(1);
  EXPECT_THAT(pods.counts(now), ElementsAre(1, 0, 0, 0, 0));
}

TEST_F(RejectedPodsTest, TheNumberOfPodsIsBounded) {
  for (std::size_t i = 0; i <= kRejectedPodsMax; ++i)
    filtered(std::to_string(i).c_str(), Rejection::kFragmentation);
  EXPECT_THAT(pods.counts(now), ElementsAre(kRejectedPodsMax, 0, 0, 0, 0));
  pods.on_settled(PodUid("0"));
  filtered("one more", Rejection::kInvalid);
  EXPECT_THAT(pods.counts(now), ElementsAre(kRejectedPodsMax - 1, 0, 0, 0, 1));
}

}  // namespace
}  // namespace mgpu::extender
