#include "extender/requeue/asked_nodes.h"

#include <gtest/gtest.h>

#include <string>

#include "extender/requeue/limits.h"

namespace mgpu::extender {
namespace {

const PodUid kFirst("a");
const PodUid kSecond("b");

struct AskedNodesTest : testing::Test {
  bool rejected(const std::vector<std::string_view>& names, const PodUid& uid = kFirst,
                const std::vector<std::string>& fitting = {"z"}) {
    return asked.rejected(uid, names, fitting, now);
  }

  AskedNodes asked;
  Instant now{};
};

TEST_F(AskedNodesTest, APodWaitsOnceForANodeThatWasNotAskedAbout) {
  EXPECT_FALSE(asked.take_wait(kFirst));
  EXPECT_TRUE(rejected({"x", "y"}));
  EXPECT_TRUE(asked.take_wait(kFirst));
  EXPECT_FALSE(asked.take_wait(kFirst)) << "kube-scheduler did not call filter in between";
}

TEST_F(AskedNodesTest, ANodeThatWasAskedAboutBeforeIsNoReasonToWait) {
  EXPECT_TRUE(rejected({"x"}));
  EXPECT_FALSE(rejected({"y", "z"}));
  EXPECT_FALSE(rejected({"w"}));
  EXPECT_FALSE(asked.take_wait(kFirst));
}

TEST_F(AskedNodesTest, WhereNoNodeIsNewAllWereExamined) {
  EXPECT_TRUE(rejected({"x", "y"}));
  EXPECT_TRUE(rejected({"y", "w"}));
  EXPECT_FALSE(rejected({"w", "x"}));
}

// Filters of kube-scheduler may exclude the node that fits.
TEST_F(AskedNodesTest, APodWaitsForALimitedTimeAndLaterAgain) {
  EXPECT_TRUE(rejected({"1"}));
  now += kSearchTime;
  EXPECT_FALSE(rejected({"2"}));
  now += kSearchAgainAfter - kSearchTime;
  EXPECT_TRUE(rejected({"1"}));
}

TEST_F(AskedNodesTest, PodsAreSeparate) {
  EXPECT_TRUE(rejected({"x"}));
  EXPECT_TRUE(rejected({"x"}, kSecond));
  EXPECT_FALSE(rejected({"x", "z"}, kSecond));
  EXPECT_TRUE(asked.take_wait(kFirst));
  EXPECT_FALSE(asked.take_wait(kSecond));
}

// A client may send names that no node has.
TEST_F(AskedNodesTest, KeepsALimitedNumberOfNames) {
  std::vector<std::string> names(kAskedNamesMax);
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = std::to_string(i);
  EXPECT_TRUE(rejected({names.begin(), names.end()}));
  EXPECT_FALSE(rejected({"one more"}));
  EXPECT_FALSE(asked.take_wait(kFirst));
}

TEST_F(AskedNodesTest, ForgetsAPod) {
  rejected({"x"});
  asked.forget(kFirst);
  EXPECT_FALSE(asked.take_wait(kFirst));
  EXPECT_EQ(asked.size(), 0U);
  EXPECT_TRUE(rejected({"x"}));
}

TEST_F(AskedNodesTest, ForgetsThePodThatWasAddedFirstWhereThereAreTooMany) {
  for (std::size_t i = 0; i <= kAskedPodsMax; ++i) rejected({"x"}, PodUid(std::to_string(i)));
  EXPECT_EQ(asked.size(), kAskedPodsMax);
  EXPECT_FALSE(asked.take_wait(PodUid("0")));
  EXPECT_TRUE(asked.take_wait(PodUid("1")));
}

}  // namespace
}  // namespace mgpu::extender
