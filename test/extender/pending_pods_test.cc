#include "extender/pending_pods.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mgpu::extender {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class PendingPodsTest : public testing::Test {
 protected:
  static PendingPods::Pending pod(const std::string& name, const std::string& name_space = "a") {
    return {{name_space, name}, PodUid(name)};
  }
  void add(const std::string& name, const std::string& name_space = "a") {
    pods.add(pod(name, name_space), now);
  }
  std::vector<std::string> due() {
    std::vector<std::string> names;
    for (const auto& one : pods.take_due(now)) names.push_back(one.ref.name);
    return names;
  }
  bool explained(const std::string& name, const std::string& text, bool fits = false) {
    return pods.explained(PodUid(name), text, fits, now);
  }

  PendingPods pods;
  Instant now{Duration(1'000'000)};
};

TEST_F(PendingPodsTest, ExplainsAPodAfterHalfAMinute) {
  add("p");
  now += kPendingBeforeEvent - Duration(1);
  add("p");  // It has changed.
  EXPECT_THAT(due(), IsEmpty());
  now += Duration(1);
  EXPECT_THAT(due(), ElementsAre("p"));
  EXPECT_TRUE(explained("p", "too large"));
}

TEST_F(PendingPodsTest, SaysAnotherAnswerAndNoAnswerTwice) {
  add("p");
  now += kPendingBeforeEvent;
  EXPECT_THAT(due(), ElementsAre("p"));
  EXPECT_TRUE(explained("p", "too large"));
  now += kPendingBetweenEvents - Duration(1);
  EXPECT_THAT(due(), IsEmpty());
  now += Duration(1);
  EXPECT_THAT(due(), ElementsAre("p"));
  EXPECT_FALSE(explained("p", "too large"));
  now += kPendingBetweenLooks;
  EXPECT_THAT(due(), ElementsAre("p"));
  EXPECT_TRUE(explained("p", "no card matches"));
}

TEST_F(PendingPodsTest, SaysThatCardsAreFreeWhenTwoLooksFindIt) {
  add("p");
  now += kPendingBeforeEvent;
  EXPECT_THAT(due(), ElementsAre("p"));
  EXPECT_FALSE(explained("p", "free", true));
  now += kPendingBetweenLooks;
  EXPECT_THAT(due(), ElementsAre("p"));
  EXPECT_TRUE(explained("p", "free", true));
}

TEST_F(PendingPodsTest, BoundsTheEventsOfAPod) {
  add("p");
  int events = 0;
  for (int i = 0; i < 100; ++i) {
    now += kPendingBetweenEvents;
    for (const std::string& name : due()) events += explained(name, std::to_string(i)) ? 1 : 0;
  }
  EXPECT_EQ(events, kPendingEventsMax);
}

TEST_F(PendingPodsTest, BoundsTheExplanationsOfAPollAndOfANamespace) {
  for (int i = 0; i < 100; ++i) add("p" + std::to_string(100 + i), "large");
  now += Duration(1);
  for (const char* name_space : {"b", "c", "d"}) add(name_space, name_space);
  now += kPendingBeforeEvent;
  EXPECT_THAT(due(), ElementsAre("p100", "p101", "b", "c", "d"));
  EXPECT_THAT(due(), ElementsAre("p102", "p103"));
  for (const char* name_space : {"e", "f", "g", "h", "i", "j"}) add(name_space, name_space);
  now += kPendingBeforeEvent;
  EXPECT_EQ(due().size(), kPendingExplainedPerPoll);
}

TEST_F(PendingPodsTest, ForgetsPodsThatAreNotPending) {
  for (const char* name : {"p", "q", "r"}) add(name);
  pods.remove(PodUid("p"));
  pods.keep_only({pod("q")});
  now += kPendingBeforeEvent;
  EXPECT_THAT(due(), ElementsAre("q"));
  pods.remove(PodUid("q"));
  EXPECT_FALSE(explained("q", "too large"));
}

TEST_F(PendingPodsTest, FollowsABoundedNumberOfPods) {
  for (std::size_t i = 0; i < kPendingFollowedMax + 10; ++i) add(std::to_string(i));
  EXPECT_EQ(pods.size(), kPendingFollowedMax);
}

TEST_F(PendingPodsTest, NamesThePodsOfAGroupIfAllAreKnown) {
  for (const char* name : {"p", "q"}) pods.add({{"a", name}, PodUid(name), "a/g"}, now);
  add("alone");
  EXPECT_EQ(pods.of_group("a/g", 2).size(), 2U);
  EXPECT_THAT(pods.of_group("a/g", 1), IsEmpty());
}

TEST_F(PendingPodsTest, NamesNoPodsOfAGroupOnceAPodWasNotFollowed) {
  const PendingPods::Pending member{{"a", "p"}, PodUid("p"), "a/g"};
  pods.add(member, now);
  for (std::size_t i = pods.size(); i < kPendingFollowedMax; ++i) add("more-" + std::to_string(i));
  EXPECT_EQ(pods.of_group("a/g", 2).size(), 1U);
  pods.add({{"a", "q"}, PodUid("q"), "a/g"}, now);
  EXPECT_THAT(pods.of_group("a/g", 2), IsEmpty());
  pods.remove(PodUid("more-1"));
  pods.add({{"b", "r"}, PodUid("r"), "b/g"}, now);
  EXPECT_EQ(pods.of_group("b/g", 2).size(), 1U) << "no pod of its namespace is missing";
  EXPECT_THAT(pods.of_group("a/g", 2), IsEmpty());
  pods.keep_only({member});
  EXPECT_EQ(pods.of_group("a/g", 2).size(), 1U) << "all are listed again";
}

TEST_F(PendingPodsTest, NamesNoPodsOfAGroupOfWhichOneWithoutCardsIsPending) {
  pods.add({{"a", "p"}, PodUid("p"), "a/g"}, now);
  pods.add_without_cards({{"a", "q"}, PodUid("q"), "a/g"});
  pods.add_without_cards({{"a", "r"}, PodUid("r"), "a/h"});
  EXPECT_THAT(pods.of_group("a/g", 2), IsEmpty());
  now += kPendingBeforeEvent;
  EXPECT_THAT(due(), ElementsAre("p"));
  pods.remove(PodUid("q"));
  EXPECT_EQ(pods.of_group("a/g", 2).size(), 1U) << "it is bound";
  pods.add_without_cards({{"a", "q"}, PodUid("q"), "a/g"});
  pods.keep_only({pod("p")});
  EXPECT_EQ(pods.of_group("a/g", 2).size(), 1U);
}

TEST_F(PendingPodsTest, FollowsABoundedNumberOfPodsWithoutCards) {
  pods.add({{"a", "p"}, PodUid("p"), "a/g"}, now);
  for (std::size_t i = 0; i < kPendingFollowedMax; ++i)
    pods.add_without_cards({{"a", "q"}, PodUid(std::to_string(i)), "a/h"});
  pods.add_without_cards({{"a", "alone"}, PodUid("alone")});
  EXPECT_EQ(pods.of_group("a/g", 2).size(), 1U);
  pods.add_without_cards({{"a", "q"}, PodUid("one more"), "a/h"});
  EXPECT_THAT(pods.of_group("a/g", 2), IsEmpty());
}

}  // namespace
}  // namespace mgpu::extender
