#include "extender/verbs/answered_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "extender/verbs/limits.h"

namespace mgpu::extender {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

struct AnsweredNodesTest : testing::Test {
  // filter answers the node, and kube-scheduler asks again.
  void refuse(const std::string& node) {
    nodes.answered(uid, node);
    nodes.asked(uid, now);
  }
  const PodUid uid{"p"};
  Instant now{};
  AnsweredNodes nodes;
};

TEST_F(AnsweredNodesTest, ANodeThatWasAnsweredIsAvoidedOnceThePodIsAskedAbout) {
  nodes.asked(uid, now);
  nodes.answered(uid, "a");
  EXPECT_THAT(nodes.avoided(uid, now), IsEmpty());
  nodes.asked(uid, now);
  EXPECT_THAT(nodes.avoided(uid, now), ElementsAre("a"));
  EXPECT_THAT(nodes.avoided(uid, now + kAvoidanceFirst - Duration(1)), ElementsAre("a"));
  EXPECT_THAT(nodes.avoided(uid, now + kAvoidanceFirst), IsEmpty());
}

TEST_F(AnsweredNodesTest, AskingTwiceIsOneRefusal) {
  refuse("a");
  nodes.asked(uid, now + kAvoidanceFirst);
  EXPECT_THAT(nodes.avoided(uid, now + kAvoidanceFirst), IsEmpty());
}

TEST_F(AnsweredNodesTest, EachRefusalDoublesTheTimeUpToABound) {
  for (Duration wait = kAvoidanceFirst; wait <= kAvoidanceMax; wait *= 2) {
    refuse("a");
    EXPECT_THAT(nodes.avoided(uid, now + wait - Duration(1)), ElementsAre("a"));
    now += wait;
    EXPECT_THAT(nodes.avoided(uid, now), IsEmpty());
  }
  refuse("a");
  EXPECT_THAT(nodes.avoided(uid, now + kAvoidanceMax), IsEmpty());
}

TEST_F(AnsweredNodesTest, ABindThatFailedForAnotherReasonIsNoRefusal) {
  nodes.answered(uid, "a");
  nodes.forget_answer(uid);
  nodes.asked(uid, now);
  EXPECT_THAT(nodes.avoided(uid, now), IsEmpty());
}

TEST_F(AnsweredNodesTest, APodThatIsBoundIsForgotten) {
  refuse("a");
  nodes.end(uid);
  EXPECT_THAT(nodes.avoided(uid, now), IsEmpty());
  EXPECT_EQ(nodes.size(), 0U);
}

TEST_F(AnsweredNodesTest, ThereAreBounds) {
  for (std::size_t i = 0; i <= kAvoidedNodesMax; ++i) {
    refuse("n" + std::to_string(i));
    now += Duration(1);
  }
  EXPECT_THAT(nodes.avoided(uid, now), SizeIs(kAvoidedNodesMax));
  EXPECT_THAT(nodes.avoided(uid, now), testing::Not(testing::Contains("n0")));
  for (std::size_t i = 0; i < kAnsweredPodsMax; ++i) nodes.answered(PodUid(std::to_string(i)), "a");
  EXPECT_EQ(nodes.size(), kAnsweredPodsMax);
  EXPECT_THAT(nodes.avoided(uid, now), IsEmpty()) << "it was answered before all others";
}

TEST_F(AnsweredNodesTest, APodWithoutUidIsNotRemembered) {
  nodes.answered(PodUid(), "a");
  EXPECT_EQ(nodes.size(), 0U);
}

}  // namespace
}  // namespace mgpu::extender
