#include "extender/requeue/requeue_tracker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "extender/requeue/limits.h"

namespace mgpu::extender {
namespace {

constexpr Duration kTick{1};
const PodUid kA("a");
const PodUid kB("b");

Instant at(Duration since_start) {
  return Instant{} + std::chrono::hours(1) + since_start;
}
const Instant kStart = at(Duration(0));

TEST(RequeueTracker, APodThatNeedsOtherCardsIsStrandedByThemOnly) {
  RequeueTracker tracker;
  tracker.on_other_cards_needed(kA, 0, kStart);
  tracker.observe(1, 0, kStart + kTick);
  EXPECT_FALSE(tracker.due());
  tracker.observe(1, 1, kStart + kTick);
  EXPECT_TRUE(tracker.due());
  tracker.on_other_cards_needed(kA, 1, kStart + kTick);
  EXPECT_FALSE(tracker.due());
  tracker.on_other_cards_needed(kB, 0, kStart + kTick);
  EXPECT_TRUE(tracker.due()) << "it was decided before they changed";
}

TEST(RequeueTracker, ARejectionAloneStrandsNoPod) {
  RequeueTracker tracker;
  tracker.on_rejected(kA, 0, kStart);
  tracker.observe(0, 0, kStart + kTick);
  EXPECT_FALSE(tracker.due());
  EXPECT_EQ(tracker.size(), 1U);
}

TEST(RequeueTracker, ARequeueIsDueSomeTimeAfterTheRelease) {
  RequeueTracker tracker;
  tracker.on_rejected(kA, 0, kStart);
  tracker.observe(1, 0, at(Duration(70)));
  EXPECT_EQ(tracker.due(), at(Duration(70)) + kRequeueDelay);
}

TEST(RequeueTracker, ARejectionInPartIsRequeuedAtOnce) {
  RequeueTracker tracker;
  tracker.on_filter(kA, kStart);
  tracker.on_rejected_in_part(kA, 0, kStart);
  ASSERT_TRUE(tracker.due());
  EXPECT_LE(*tracker.due(), kStart);
  tracker.sent(kStart + kTick);
  tracker.on_rejected_in_part(kB, 0, kStart + kTick);
  tracker.succeeded();
  EXPECT_EQ(tracker.due(), kStart + kTick + kRequeueInterval) << "b was rejected after it";
  tracker.on_filter(kB, kStart + kTick);
  EXPECT_FALSE(tracker.due());
}

TEST(RequeueTracker, FewRequeuesAreUrgentUnlessTheyFindNodes) {
  RequeueTracker tracker;
  const auto requeue_urgently = [&](Instant now) {
    if (!tracker.on_rejected_in_part(kA, 0, now)) return false;
    EXPECT_TRUE(tracker.on_rejected_in_part(kB, 0, now)) << "it is requeued with a";
    tracker.sent(now);
    tracker.succeeded();
    tracker.on_filter(kA, now);
    tracker.on_filter(kB, now);
    return true;
  };
  for (int i = 0; i < kUrgentRequeuesMax; ++i) EXPECT_TRUE(requeue_urgently(kStart));
  EXPECT_FALSE(requeue_urgently(kStart));
  EXPECT_TRUE(tracker.empty());
  tracker.on_found();
  EXPECT_TRUE(requeue_urgently(kStart));
  EXPECT_FALSE(requeue_urgently(kStart + kUrgentRequeueEvery - kTick));
  EXPECT_TRUE(requeue_urgently(kStart + kUrgentRequeueEvery));
  EXPECT_FALSE(requeue_urgently(kStart + kUrgentRequeueEvery));
}

TEST(RequeueTracker, ARejectionAfterTheReleaseStrandsNoPod) {
  RequeueTracker tracker;
  tracker.on_rejected(kA, 1, kStart);
  tracker.observe(1, 0, kStart + kTick);
  EXPECT_FALSE(tracker.due());
}

TEST(RequeueTracker, ARejectionDecidedBeforeAReleaseAndAnsweredAfterItStrandsThePod) {
  RequeueTracker tracker;
  tracker.observe(1, 0, kStart);
  tracker.on_rejected(kA, 0, kStart + kTick);
  EXPECT_EQ(tracker.due(), kStart + kTick + kRequeueDelay);
}

TEST(RequeueTracker, APodThatWaitsForLongIsRequeuedToo) {
  RequeueTracker tracker;
  tracker.on_rejected(kA, 0, kStart);
  const Instant late = kStart + kRequeueRememberedFor - kTick;
  tracker.observe(1, 0, late);
  EXPECT_EQ(tracker.due(), late + kRequeueDelay);
}

TEST(RequeueTracker, APodThatIsFilteredAgainOrSettledIsNotRequeued) {
  for (const bool filtered : {true, false}) {
    RequeueTracker tracker;
    tracker.on_rejected(kA, 0, kStart);
    tracker.observe(1, 0, kStart);
    filtered ? tracker.on_filter(kA, kStart) : tracker.on_settled(kA);
    EXPECT_FALSE(tracker.due());
    EXPECT_TRUE(tracker.empty());
  }
}

TEST(RequeueTracker, TheDelayStartsAtTheFirstRelease) {
  RequeueTracker tracker;
  tracker.on_rejected(kA, 0, kStart);
  tracker.observe(1, 0, kStart);
  tracker.observe(2, 0, at(Duration(900)));
  EXPECT_EQ(tracker.due(), kStart + kRequeueDelay);
}

TEST(RequeueTracker, WaitsWhileKubeSchedulerCallsFilterButNotForever) {
  RequeueTracker tracker;
  tracker.on_rejected(kA, 0, kStart);
  tracker.observe(1, 0, kStart);
  const Instant filter = kStart + kRequeueDelay;
  tracker.on_filter(kB, filter);
  EXPECT_EQ(tracker.due(), filter + kRequeueQuiet);
  tracker.on_filter(kB, kStart + kRequeueDelayMax);
  EXPECT_EQ(tracker.due(), kStart + kRequeueDelayMax);
}

TEST(RequeueTracker, OneRequeueServesAllStrandedPods) {
  RequeueTracker tracker;
  tracker.on_rejected(kA, 0, kStart);
  tracker.on_rejected(kB, 0, kStart);
  tracker.observe(1, 0, kStart);
  tracker.sent(*tracker.due());
  EXPECT_FALSE(tracker.due()) << "one at a time";
  tracker.succeeded();
  EXPECT_TRUE(tracker.empty());
  EXPECT_FALSE(tracker.due());
}

TEST(RequeueTracker, AReleaseDuringARequeueNeedsAnotherRequeue) {
  RequeueTracker tracker;
  tracker.on_rejected(kA, 0, kStart);
  tracker.on_rejected(kB, 1, kStart);
  tracker.observe(1, 0, kStart);
  const Instant sent = *tracker.due();
  tracker.sent(sent);
  tracker.observe(2, 0, sent);
  tracker.succeeded();
  EXPECT_EQ(tracker.size(), 1U);
  EXPECT_EQ(tracker.due(), sent + std::max(kRequeueDelay, kRequeueInterval));
}

TEST(RequeueTracker, RequeuesKeepTheirInterval) {
  RequeueTracker tracker;
  tracker.on_rejected(kA, 0, kStart);
  tracker.observe(1, 0, kStart);
  tracker.on_rejected(kB, 1, kStart);
  const Instant sent = kStart + kRequeueDelay;
  tracker.observe(2, 0, sent - kTick);
  tracker.sent(sent);
  tracker.succeeded();
  tracker.on_rejected(kB, 1, sent);
  EXPECT_GE(*tracker.due(), sent + kRequeueInterval);
}

TEST(RequeueTracker, AFailedRequeueIsRetried) {
  RequeueTracker tracker;
  tracker.on_rejected(kA, 0, kStart);
  tracker.observe(1, 0, kStart);
  tracker.sent(*tracker.due());
  const Instant retry = kStart + std::chrono::minutes(1);
  tracker.failed(retry);
  EXPECT_EQ(tracker.due(), retry);
  tracker.on_filter(kA, retry);
  EXPECT_FALSE(tracker.due());
}

TEST(RequeueTracker, APodThatIsNotFilteredForLongIsDropped) {
  RequeueTracker tracker;
  tracker.on_rejected(kA, 0, kStart);
  tracker.observe(1, 0, kStart);
  tracker.on_rejected(kB, 1, kStart + kTick);
  tracker.observe(1, 0, kStart + kRequeueRememberedFor);
  EXPECT_EQ(tracker.size(), 1U);
  EXPECT_FALSE(tracker.due());
}

TEST(RequeueTracker, IsBoundedAndDropsThePodThatWaitsLongest) {
  RequeueTracker tracker;
  for (std::size_t i = 0; i < kRequeuePodsMax + 5; ++i)
    tracker.on_rejected(PodUid(std::to_string(i)), 0, kStart);
  EXPECT_EQ(tracker.size(), kRequeuePodsMax);
  tracker.on_settled(PodUid("4"));
  EXPECT_EQ(tracker.size(), kRequeuePodsMax);
  tracker.on_settled(PodUid("5"));
  EXPECT_EQ(tracker.size(), kRequeuePodsMax - 1);
}

TEST(RequeueTracker, IsBoundedWhereAllPodsAreStranded) {
  RequeueTracker tracker;
  tracker.observe(1, 0, kStart);
  for (std::size_t i = 0; i < kRequeuePodsMax + 5; ++i)
    tracker.on_rejected(PodUid(std::to_string(i)), 0, kStart);
  EXPECT_EQ(tracker.size(), kRequeuePodsMax);
  EXPECT_EQ(tracker.due(), kStart + kRequeueDelay);
}

// --- comparison with a model ---------------------------------------------------------------------

struct Model {
  struct Pod {
    std::uint64_t releases = 0;
    bool stranded = false;
  };
  std::map<std::string, Pod> pods;
  std::uint64_t releases = 0;

  void on_rejected(const std::string& pod, std::uint64_t known) {
    pods[pod] = {known, known < releases};
  }
  void observe(std::uint64_t now) {
    if (now != releases)
      for (auto& [name, pod] : pods) pod.stranded |= pod.releases < now;
    releases = now;
  }
  bool stranded() const {
    return std::ranges::any_of(pods, [](const auto& pod) { return pod.second.stranded; });
  }
  void succeeded() {
    std::erase_if(pods, [](const auto& pod) { return pod.second.stranded; });
  }
};

TEST(RequeueTracker, AgreesWithASimplerModel) {
  std::mt19937 random(11);
  RequeueTracker tracker;
  Model model;
  std::uint64_t releases = 0;
  Instant now = kStart;
  for (int step = 0; step < 20'000; ++step) {
    now += kTick;
    const std::string pod = "pod-" + std::to_string(random() % 8);
    switch (random() % 6) {
      case 0:
        ++releases;
        break;
      case 1:
        tracker.observe(releases, 0, now);
        model.observe(releases);
        break;
      case 2:
        tracker.on_filter(PodUid(pod), now);
        model.pods.erase(pod);
        break;
      case 3:
        tracker.on_settled(PodUid(pod));
        model.pods.erase(pod);
        break;
      case 4: {
        const std::uint64_t known = releases - std::min<std::uint64_t>(releases, random() % 2);
        tracker.on_rejected(PodUid(pod), known, now);
        model.on_rejected(pod, known);
        break;
      }
      default:
        if (!tracker.due()) break;
        tracker.sent(now += kTick);
        tracker.succeeded();
        model.succeeded();
    }
    ASSERT_EQ(tracker.due().has_value(), model.stranded()) << step;
    ASSERT_EQ(tracker.size(), model.pods.size()) << step;
  }
}

}  // namespace
}  // namespace mgpu::extender
