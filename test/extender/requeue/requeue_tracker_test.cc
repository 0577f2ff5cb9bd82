#include "extender/requeue/requeue_tracker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "extender/requeue/limits.h"

namespace mgpu::extender {
namespace {

constexpr Duration kBlink{1};
const PodUid kA("a");
const PodUid kB("b");

Instant at(Duration since_start) {
  return Instant{} + std::chrono::hours(1) + since_start;
}
const Instant kStart = at(Duration(0));

TEST(RequeueTracker, ARefusalAloneIsOwedNothing) {
  RequeueTracker list;
  list.refused(kA, 0, kStart);
  list.observe(0, kStart + kBlink);
  EXPECT_FALSE(list.due());
  EXPECT_EQ(list.size(), 1U);
}

TEST(RequeueTracker, AReleaseAfterTheRefusalIsDueOnceKubeSchedulerHadItsTime) {
  RequeueTracker list;
  list.refused(kA, 0, kStart);
  list.observe(1, at(Duration(70)));
  EXPECT_EQ(list.due(), at(Duration(70)) + kRequeueDelay);
}

TEST(RequeueTracker, ARefusalThatKnewTheReleaseIsOwedNothing) {
  RequeueTracker list;
  list.refused(kA, 1, kStart);
  list.observe(1, kStart + kBlink);
  EXPECT_FALSE(list.due());
}

TEST(RequeueTracker, ARefusalDecidedBeforeAReleaseAndAnsweredAfterItIsOwed) {
  RequeueTracker list;
  list.observe(1, kStart);
  list.refused(kA, 0, kStart + kBlink);
  EXPECT_EQ(list.due(), kStart + kBlink + kRequeueDelay);
}

TEST(RequeueTracker, WhoWaitsForLongIsOwedAsMuch) {
  RequeueTracker list;
  list.refused(kA, 0, kStart);
  const Instant late = kStart + kRequeueRememberedFor - kBlink;
  list.observe(1, late);
  EXPECT_EQ(list.due(), late + kRequeueDelay);
}

TEST(RequeueTracker, WhoIsAskedAboutAgainOrGoneIsOwedNothing) {
  for (const bool asked : {true, false}) {
    RequeueTracker list;
    list.refused(kA, 0, kStart);
    list.observe(1, kStart);
    asked ? list.asked(kA, kStart) : list.gone(kA);
    EXPECT_FALSE(list.due());
    EXPECT_TRUE(list.empty());
  }
}

TEST(RequeueTracker, TheFirstReleaseCountsNotTheLast) {
  RequeueTracker list;
  list.refused(kA, 0, kStart);
  list.observe(1, kStart);
  list.observe(2, at(Duration(900)));
  EXPECT_EQ(list.due(), kStart + kRequeueDelay);
}

TEST(RequeueTracker, WaitsWhileKubeSchedulerIsAskingButNotForEver) {
  RequeueTracker list;
  list.refused(kA, 0, kStart);
  list.observe(1, kStart);
  const Instant asking = kStart + kRequeueDelay;
  list.asked(kB, asking);
  EXPECT_EQ(list.due(), asking + kRequeueQuiet);
  list.asked(kB, kStart + kRequeueDelayMax);
  EXPECT_EQ(list.due(), kStart + kRequeueDelayMax);
}

TEST(RequeueTracker, OneWakeIsForAllWhoWereOwedIt) {
  RequeueTracker list;
  list.refused(kA, 0, kStart);
  list.refused(kB, 0, kStart);
  list.observe(1, kStart);
  list.sent(*list.due());
  EXPECT_FALSE(list.due()) << "one at a time";
  list.woken();
  EXPECT_TRUE(list.empty());
  EXPECT_FALSE(list.due());
}

TEST(RequeueTracker, AReleaseSeenWhileAWakeIsUnderWayNeedsAnother) {
  RequeueTracker list;
  list.refused(kA, 0, kStart);
  list.refused(kB, 1, kStart);
  list.observe(1, kStart);
  const Instant sent = *list.due();
  list.sent(sent);
  list.observe(2, sent);
  list.woken();
  EXPECT_EQ(list.size(), 1U);
  EXPECT_EQ(list.due(), sent + std::max(kRequeueDelay, kRequeueInterval));
}

TEST(RequeueTracker, WakesKeepTheirDistance) {
  RequeueTracker list;
  list.refused(kA, 0, kStart);
  list.observe(1, kStart);
  list.refused(kB, 1, kStart);
  const Instant sent = kStart + kRequeueDelay;
  list.observe(2, sent - kBlink);
  list.sent(sent);
  list.woken();
  list.refused(kB, 1, sent);
  EXPECT_GE(*list.due(), sent + kRequeueInterval);
}

TEST(RequeueTracker, AFailedWakeIsOwedStill) {
  RequeueTracker list;
  list.refused(kA, 0, kStart);
  list.observe(1, kStart);
  list.sent(*list.due());
  const Instant retry = kStart + std::chrono::minutes(1);
  list.failed(retry);
  EXPECT_EQ(list.due(), retry);
  list.asked(kA, retry);
  EXPECT_FALSE(list.due());
}

TEST(RequeueTracker, WhoIsNotAskedAboutForLongIsNoLongerThere) {
  RequeueTracker list;
  list.refused(kA, 0, kStart);
  list.observe(1, kStart);
  list.refused(kB, 1, kStart + kBlink);
  list.observe(1, kStart + kRequeueRememberedFor);
  EXPECT_EQ(list.size(), 1U);
  EXPECT_FALSE(list.due());
}

TEST(RequeueTracker, HasABoundAndForgetsWhoWaitsLongest) {
  RequeueTracker list;
  for (std::size_t i = 0; i < kRequeueListMax + 5; ++i)
    list.refused(PodUid(std::to_string(i)), 0, kStart);
  EXPECT_EQ(list.size(), kRequeueListMax);
  list.gone(PodUid("4"));
  EXPECT_EQ(list.size(), kRequeueListMax);
  list.gone(PodUid("5"));
  EXPECT_EQ(list.size(), kRequeueListMax - 1);
}

TEST(RequeueTracker, TheBoundHoldsWhereAllAreOwed) {
  RequeueTracker list;
  list.observe(1, kStart);
  for (std::size_t i = 0; i < kRequeueListMax + 5; ++i)
    list.refused(PodUid(std::to_string(i)), 0, kStart);
  EXPECT_EQ(list.size(), kRequeueListMax);
  EXPECT_EQ(list.due(), kStart + kRequeueDelay);
}

// --- against a model: a map, and scans of it -----------------------------------------------------

struct Model {
  struct Pod {
    std::uint64_t releases = 0;
    bool owed = false;
  };
  std::map<std::string, Pod> pods;
  std::uint64_t releases = 0;

  void refused(const std::string& pod, std::uint64_t known) {
    pods[pod] = {known, known < releases};
  }
  void observe(std::uint64_t now) {
    if (now != releases)
      for (auto& [name, pod] : pods) pod.owed |= pod.releases < now;
    releases = now;
  }
  bool owed() const {
    return std::ranges::any_of(pods, [](const auto& pod) { return pod.second.owed; });
  }
  void woken() {
    std::erase_if(pods, [](const auto& pod) { return pod.second.owed; });
  }
};

TEST(RequeueTracker, OwesWhatASimplerModelOwesWhateverHappens) {
  std::mt19937 random(11);
  RequeueTracker list;
  Model model;
  std::uint64_t releases = 0;
  Instant now = kStart;
  for (int step = 0; step < 20'000; ++step) {
    now += kBlink;
    const std::string pod = "pod-" + std::to_string(random() % 8);
    switch (random() % 6) {
      case 0:
        ++releases;
        break;
      case 1:
        list.observe(releases, now);
        model.observe(releases);
        break;
      case 2:
        list.asked(PodUid(pod), now);
        model.pods.erase(pod);
        break;
      case 3:
        list.gone(PodUid(pod));
        model.pods.erase(pod);
        break;
      case 4: {
        const std::uint64_t known = releases - std::min<std::uint64_t>(releases, random() % 2);
        list.refused(PodUid(pod), known, now);
        model.refused(pod, known);
        break;
      }
      default:
        if (!list.due()) break;
        list.sent(now += kBlink);
        list.woken();
        model.woken();
    }
    ASSERT_EQ(list.due().has_value(), model.owed()) << step;
    ASSERT_EQ(list.size(), model.pods.size()) << step;
  }
}

}  // namespace
}  // namespace mgpu::extender
