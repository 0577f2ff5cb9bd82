#include "extender/requeue/asked_nodes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "extender/requeue/limits.h"

namespace mgpu::extender {
namespace {

constexpr ReplicaGroup kFirst = 1;
constexpr ReplicaGroup kSecond = 2;
const PodUid kPod("a");

struct AskedNodesTest : testing::Test {
  bool rejected(const std::vector<std::string_view>& names, ReplicaGroup group = kFirst,
                const std::vector<std::string>& fitting = {"z"}, const PodUid& uid = kPod) {
    return asked.rejected(group, uid, names, fitting, now);
  }

  AskedNodes asked;
  Instant now = Instant() + std::chrono::hours(1);
};

TEST_F(AskedNodesTest, APodWaitsOnceForANodeThatWasNotAskedAbout) {
  EXPECT_FALSE(asked.take_wait(kPod));
  EXPECT_TRUE(rejected({"x", "y"}));
  EXPECT_TRUE(asked.take_wait(kPod));
  EXPECT_FALSE(asked.take_wait(kPod)) << "kube-scheduler did not call filter in between";
}

TEST_F(AskedNodesTest, ANodeThatWasAskedAboutBeforeIsNoReasonToWait) {
  EXPECT_TRUE(rejected({"x"}));
  EXPECT_TRUE(asked.take_wait(kPod));
  EXPECT_FALSE(rejected({"y", "z"}));
  EXPECT_FALSE(rejected({"w"}));
  EXPECT_FALSE(asked.take_wait(kPod));
}

TEST_F(AskedNodesTest, WhereNoNodeIsNewAllWereExamined) {
  EXPECT_TRUE(rejected({"x", "y"}));
  EXPECT_TRUE(rejected({"y", "w"}));
  EXPECT_FALSE(rejected({"w", "x"}));
}

// Filters of kube-scheduler may exclude the node that fits.
TEST_F(AskedNodesTest, APodWaitsForALimitedTime) {
  EXPECT_TRUE(rejected({"1"}));
  now += kSearchTime;
  EXPECT_FALSE(rejected({"2"}));
}

TEST_F(AskedNodesTest, ASearchThatHasEndedBeginsAgainOnlyWhereOtherNodesFit) {
  EXPECT_TRUE(rejected({"1"}));
  EXPECT_FALSE(rejected({"1"}));
  EXPECT_FALSE(rejected({"1"}, kFirst, {"y", "z"})) << "it has searched just now";
  now += kSearchAgainAfter;
  EXPECT_FALSE(rejected({"2"}, kFirst, {"z"}));
  EXPECT_TRUE(rejected({"1"}, kFirst, {"y", "z"}));
}

TEST_F(AskedNodesTest, TheOrderOfTheNodesThatFitIsNoChange) {
  EXPECT_TRUE(rejected({"1"}, kFirst, {"y", "z"}));
  EXPECT_FALSE(rejected({"1"}, kFirst, {"y", "z"}));
  now += kSearchAgainAfter;
  EXPECT_FALSE(rejected({"2"}, kFirst, {"z", "y"}));
}

TEST_F(AskedNodesTest, PodsOfAGroupSearchTogetherAndGroupsSeparately) {
  const PodUid other("b");
  EXPECT_TRUE(rejected({"x"}));
  EXPECT_FALSE(rejected({"x"}, kFirst, {"z"}, other)) << "its replica was asked about these nodes";
  EXPECT_TRUE(rejected({"x"}, kSecond, {"z"}, other));
  EXPECT_FALSE(rejected({"x", "z"}, kSecond, {"z"}, PodUid("c")));
  EXPECT_TRUE(asked.take_wait(kPod));
  EXPECT_TRUE(asked.take_wait(other));
  EXPECT_FALSE(asked.take_wait(PodUid("c")));
}

// A client may send names that no node has.
TEST_F(AskedNodesTest, KeepsALimitedNumberOfNames) {
  std::vector<std::string> names(kAskedNamesMax);
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = std::to_string(i);
  EXPECT_TRUE(rejected({names.begin(), names.end()}));
  EXPECT_TRUE(asked.take_wait(kPod));
  EXPECT_FALSE(rejected({"one more"}));
  EXPECT_FALSE(asked.take_wait(kPod));
}

TEST_F(AskedNodesTest, ForgetsAGroup) {
  rejected({"x"});
  EXPECT_TRUE(asked.forget(kFirst));
  EXPECT_FALSE(asked.forget(kFirst));
  EXPECT_EQ(asked.size(), 0U);
  EXPECT_TRUE(rejected({"x"}));
}

TEST_F(AskedNodesTest, WithTooManySearchesTheFirstOneEnds) {
  for (ReplicaGroup group = 0; group <= kSearchesMax; ++group) EXPECT_TRUE(rejected({"x"}, group));
  EXPECT_FALSE(rejected({"y"}, 0));
  EXPECT_TRUE(rejected({"y"}, 1));
}

TEST_F(AskedNodesTest, AGroupForWhichThereIsNoMemoryDoesNotSearch) {
  for (ReplicaGroup group = 0; group < kSearchedGroupsMax; ++group) rejected({"x"}, group);
  EXPECT_FALSE(rejected({"x"}, kSearchedGroupsMax));
  EXPECT_EQ(asked.size(), kSearchedGroupsMax);
  now += kRequeueRememberedFor;
  EXPECT_TRUE(rejected({"x"}, kSearchedGroupsMax)) << "the others are no longer tried";
  EXPECT_EQ(asked.size(), 1U);
}

TEST_F(AskedNodesTest, TheWaitOfALimitedNumberOfPodsIsKept) {
  for (std::size_t i = 0; i <= kWaitsKeptMax; ++i)
    rejected({"x"}, i, {"z"}, PodUid(std::to_string(i)));
  EXPECT_FALSE(asked.take_wait(PodUid("0")));
  EXPECT_TRUE(asked.take_wait(PodUid("1")));
}

}  // namespace
}  // namespace mgpu::extender
