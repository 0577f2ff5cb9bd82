#include "extender/preemptors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {

using mgpu::test::at_ms;
using testing::ElementsAre;
using testing::IsEmpty;

Preemptors::Preemptor pod(const std::string& name, int priority,
                          const std::string& name_space = "team") {
  return {{name_space, name}, PodUid(name), priority, false, {"n1"}};
}

std::vector<std::string> due(Preemptors& preemptors, int ms) {
  std::vector<std::string> names;
  for (const auto& one : preemptors.take_due(at_ms(ms))) names.push_back(one.ref.name);
  return names;
}

TEST(PreemptorsTest, APodIsTakenOnceASecondAfterItsFirstRefusal) {
  Preemptors preemptors;
  preemptors.refused(pod("a", 5), at_ms(0));
  preemptors.refused(pod("a", 5), at_ms(500));
  EXPECT_THAT(due(preemptors, 999), IsEmpty());
  EXPECT_THAT(due(preemptors, 1'000), ElementsAre("a"));
  EXPECT_THAT(due(preemptors, 9'000), IsEmpty());
}

TEST(PreemptorsTest, APodIsNotTakenInTheSchedulingCycleOfARefusal) {
  Preemptors preemptors;
  preemptors.refused(pod("a", 5), at_ms(0));
  preemptors.refused(pod("a", 5), at_ms(900));
  EXPECT_THAT(due(preemptors, 1'099), IsEmpty());
  EXPECT_THAT(due(preemptors, 1'100), ElementsAre("a"));
}

TEST(PreemptorsTest, APodThatIsTriedAllTheTimeIsTaken) {
  Preemptors preemptors;
  for (int ms = 0; ms <= 5'000; ms += 100) preemptors.refused(pod("a", 5), at_ms(ms));
  EXPECT_THAT(due(preemptors, 4'999), IsEmpty());
  EXPECT_THAT(due(preemptors, 5'000), ElementsAre("a"));
}

TEST(PreemptorsTest, APodThatPreemptsInBetweenWaitsAgain) {
  Preemptors preemptors;
  preemptors.refused(pod("a", 5), at_ms(0));
  preemptors.settled(PodUid("a"));
  preemptors.refused(pod("a", 5), at_ms(500));
  EXPECT_THAT(due(preemptors, 1'499), IsEmpty());
  EXPECT_THAT(due(preemptors, 1'500), ElementsAre("a"));
}

TEST(PreemptorsTest, APodThatFitsOrPreemptsIsNotTaken) {
  Preemptors preemptors;
  preemptors.refused(pod("a", 5), at_ms(0));
  preemptors.settled(PodUid("a"));
  EXPECT_THAT(due(preemptors, 5'000), IsEmpty());
  Preemptors::Preemptor nowhere = pod("b", 5);
  nowhere.nodes.clear();
  preemptors.refused(nowhere, at_ms(0));
  EXPECT_THAT(due(preemptors, 5'000), IsEmpty()) << "no eviction can help it";
}

TEST(PreemptorsTest, TheMostImportantPodsAreTakenFirstAndOneOfEachNamespace) {
  Preemptors preemptors;
  preemptors.refused(pod("low", 1, "a"), at_ms(0));
  preemptors.refused(pod("high", 9, "a"), at_ms(1));
  for (const char* name_space : {"b", "c", "d", "e"})
    preemptors.refused(pod(name_space, 5, name_space), at_ms(2));
  EXPECT_THAT(due(preemptors, 5'000), ElementsAre("high", "b", "c", "d"));
  EXPECT_THAT(due(preemptors, 5'000), ElementsAre("e", "low"));
}

TEST(PreemptorsTest, NoOtherVictimsAreChosenWhileSomeAreEvicted) {
  Preemptors preemptors;
  preemptors.refused(pod("a", 5), at_ms(0));
  EXPECT_THAT(due(preemptors, 1'000), ElementsAre("a"));
  EXPECT_TRUE(preemptors.begin(PodUid("a"), at_ms(1'000), at_ms(60'000)));
  EXPECT_TRUE(preemptors.is_evicting(PodUid("a"), at_ms(59'999)));
  EXPECT_FALSE(preemptors.is_evicting(PodUid("a"), at_ms(60'000)));
  preemptors.refused(pod("a", 5), at_ms(2'000));
  EXPECT_THAT(due(preemptors, 5'000), IsEmpty());
  Preemptors::Preemptor nominated = pod("a", 5);
  nominated.nominated = true;
  preemptors.refused(nominated, at_ms(20'000));
  EXPECT_THAT(due(preemptors, 22'000), IsEmpty()) << "its victims may still be terminating";
  preemptors.refused(pod("a", 5), at_ms(30'000));
  EXPECT_THAT(due(preemptors, 31'000), ElementsAre("a")) << "the nomination was taken back";
}

TEST(PreemptorsTest, AChoiceIsVoidOnceThePodFitsOrPreempts) {
  Preemptors preemptors;
  preemptors.refused(pod("a", 5), at_ms(0));
  EXPECT_THAT(due(preemptors, 1'000), ElementsAre("a"));
  preemptors.settled(PodUid("a"));
  EXPECT_FALSE(preemptors.begin(PodUid("a"), at_ms(1'001), at_ms(9'000)));
  EXPECT_FALSE(preemptors.is_evicting(PodUid("a"), at_ms(1'001)));
}

TEST(PreemptorsTest, ARefusalOrAChoiceOfLongAgoIsVoid) {
  Preemptors preemptors;
  preemptors.refused(pod("a", 5), at_ms(0));
  EXPECT_THAT(due(preemptors, 10'000), IsEmpty());
  preemptors.refused(pod("b", 5), at_ms(10'000));
  EXPECT_THAT(due(preemptors, 11'000), ElementsAre("b"));
  EXPECT_THAT(due(preemptors, 21'000), IsEmpty());
  EXPECT_FALSE(preemptors.begin(PodUid("b"), at_ms(21'000), at_ms(30'000)));
}

TEST(PreemptorsTest, BeyondTheBoundTheLeastImportantPodsAreForgotten) {
  Preemptors preemptors;
  for (std::size_t i = 0; i < kPreemptorsMax; ++i)
    preemptors.refused(pod("p" + std::to_string(i), 5, std::to_string(i)), at_ms(0));
  preemptors.refused(pod("equal", 5, "x"), at_ms(0));
  preemptors.refused(pod("higher", 6, "y"), at_ms(0));
  std::size_t taken = 0;
  bool equal = false;
  bool higher = false;
  for (int i = 0; i < 100; ++i) {
    for (const std::string& name : due(preemptors, 1'000)) {
      ++taken;
      equal |= name == "equal";
      higher |= name == "higher";
    }
  }
  EXPECT_EQ(taken, kPreemptorsMax);
  EXPECT_FALSE(equal);
  EXPECT_TRUE(higher);
}

TEST(PreemptorsTest, ANamespaceWithMorePodsThanItsPartMakesRoomForOthers) {
  Preemptors preemptors;
  for (std::size_t i = 0; i < kPreemptorsMax; ++i)
    preemptors.refused(pod("p" + std::to_string(i), 5, "many"), at_ms(0));
  preemptors.refused(pod("equal", 5, "few"), at_ms(0));
  preemptors.refused(pod("more", 5, "many"), at_ms(0));
  EXPECT_THAT(due(preemptors, 1'000), testing::Contains("equal"));
}

TEST(PreemptorsTest, APodHasABoundedNumberOfNodes) {
  Preemptors preemptors;
  Preemptors::Preemptor many = pod("a", 5);
  many.nodes.resize(10 * kPreemptNodesMax, "n1");
  preemptors.refused(many, at_ms(0));
  EXPECT_EQ(preemptors.take_due(at_ms(1'000)).at(0).nodes.size(), kPreemptNodesMax);
}

}  // namespace
}  // namespace mgpu::extender
