#include "plugin/monitor/use_account.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "test/plugin/monitor/monitor_world.h"

namespace mgpu::plugin {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::sys_seconds;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// 2026-01-01T00:00:00Z, when the account begins; and the clock that does not go back.
const sys_seconds kBegin{seconds(1'767'225'600)};
constexpr milliseconds kSteadyBegin{7'000'000};

UseMoment moment(double after) {
  const milliseconds passed(std::llround(after * 1'000));
  return {kSteadyBegin + passed, kBegin + std::chrono::floor<seconds>(passed)};
}

HeldShare share(const std::string& pod, std::int64_t core, std::optional<double> percent,
                std::optional<std::int64_t> memory = {}, int on_card = 0,
                const std::string& container = "app") {
  HeldShare made{Owner{{"ml", pod}, PodUid("uid-" + pod), container, {}, 0},
                 grant(on_card, core, 8'000)};
  made.sm_percent = percent;
  if (memory) made.memory = MiB(*memory);
  return made;
}

class UseAccountTest : public testing::Test {
 public:
  void add(double after, const std::vector<HeldShare>& held, bool fresh = true) {
    account_.add(moment(after), held, fresh);
  }
  // The share of the only container.
  const ShareUse& only() const {
    EXPECT_THAT(account_.shares(), SizeIs(1));
    return *account_.shares().at(0);
  }
  std::vector<std::string> pods() const {
    std::vector<std::string> names;
    for (const ShareUse* one : account_.shares()) names.push_back(one->pod.name);
    return names;
  }

  UseAccount account_{moment(0)};
};

// --- one container -------------------------------------------------------------------------------

struct TimedSample {
  double after;
  std::optional<double> percent;
  bool fresh = true;
};

struct UseCase {
  const char* what;
  std::vector<TimedSample> samples;  // of a share of 40 percent
  double granted;
  double used;
  double measured;
  std::optional<int> p95;
};

const UseCase kUseCases[] = {
    {"one sample says nothing about a time", {{0, 30.0}}, 0, 0, 0, {}},
    {"a steady load", {{0, 30.0}, {5, 30.0}, {10, 30.0}}, 4, 3, 10, 30},
    {"the mean of two samples", {{0, 0.0}, {10, 40.0}}, 4, 2, 10, 40},
    {"irregular distances", {{0, 10.0}, {1, 10.0}, {11, 10.0}, {14, 10.0}}, 5.6, 1.4, 14, 10},
    {"more than the share", {{0, 100.0}, {10, 100.0}}, 4, 10, 10, 100},
    {"an idle container", {{0, 0.0}, {10, 0.0}}, 4, 0, 10, 0},
    {"a driver without samples", {{0, {}}, {5, {}}, {10, {}}}, 4, 0, 0, {}},
    {"an interval without a sample is granted and not measured",
     {{0, 20.0}, {5, 20.0}, {10, {}}, {15, 20.0}, {20, 20.0}},
     8,
     2,
     10,
     20},
    {"a sample of the monitor between two of the driver changes nothing",
     {{0, 20.0}, {4, 20.0, false}, {8, 60.0}, {10, {}, false}, {12, 60.0}},
     4.8,
     5.6,
     12,
     60},
    {"samples that are far apart say nothing about the time between",
     {{0, 50.0}, {16, 50.0}, {31, 50.0}},
     12.4,
     7.5,
     15,
     50},
    {"percentages that no driver can measure count as no sample",
     {{0, 20.0}, {5, 101.0}, {10, -1.0}, {15, std::nan("")}, {20, 20.0}},
     8,
     0,
     0,
     {}},
    {"the 95th percentile is rounded up",
     {{0, 12.2}, {5, 12.2}, {10, 12.2}, {15, 12.2}},
     6,
     1.83,
     15,
     13},
    {"two samples at the same time", {{0, 50.0}, {0, 70.0}, {10, 70.0}}, 4, 7, 10, 70},
};

TEST_F(UseAccountTest, AddsUpWhatAContainerWasGrantedAndUsed) {
  for (const UseCase& one : kUseCases) {
    account_ = UseAccount(moment(0));
    for (const TimedSample& sample : one.samples) {
      add(sample.after, {share("a", 40, sample.percent)}, sample.fresh);
    }
    const ShareUse& use = only();
    EXPECT_THAT(use.granted_card_seconds, DoubleNear(one.granted, 1e-9)) << one.what;
    EXPECT_THAT(use.used_card_seconds, DoubleNear(one.used, 1e-9)) << one.what;
    EXPECT_THAT(use.measured_seconds, DoubleNear(one.measured, 1e-9)) << one.what;
    EXPECT_EQ(use.histogram.quantile(0.95), one.p95) << one.what;
  }
}

TEST_F(UseAccountTest, CountsTheSamplesOfTheDriver) {
  add(0, {share("a", 40, 10)});
  add(5, {share("a", 40, {})});
  add(10, {share("a", 40, 10)}, false);
  add(15, {share("a", 40, 0)});
  EXPECT_EQ(only().samples, 2);
}

TEST_F(UseAccountTest, KeepsTheLargestMemory) {
  add(0, {share("a", 40, {})});
  EXPECT_EQ(only().memory_peak, std::nullopt);
  for (const std::int64_t memory : {0, 700, 300}) add(5, {share("a", 40, {}, memory)});
  add(5, {share("a", 40, {}, 9'000)}, false);
  EXPECT_EQ(only().memory_peak, MiB(700));
}

TEST_F(UseAccountTest, AShareThatChangesCountsWithWhatWasHeld) {
  add(0, {share("a", 40, {})});
  add(10, {share("a", 60, {})});
  add(20, {share("a", 60, {})});
  EXPECT_THAT(only().granted_card_seconds, DoubleNear(10, 1e-9));
  EXPECT_EQ(only().grant.share.core, Percent(60));
}

TEST_F(UseAccountTest, KeepsTheOwnerOnceItIsKnown) {
  HeldShare known = share("a", 40, {});
  known.pod_owner = kube::PodOwner{"Deployment", "web"};
  add(0, {share("a", 40, {})});
  EXPECT_EQ(only().pod_owner, std::nullopt);
  add(5, {known});
  add(10, {share("a", 40, {})});
  EXPECT_EQ(only().pod_owner, (kube::PodOwner{"Deployment", "web"}));
}

// --- begin and end -------------------------------------------------------------------------------

TEST_F(UseAccountTest, AShareCountsFromTheFirstSampleThatHasItToTheFirstThatDoesNot) {
  add(5, {});
  add(10, {share("a", 50, 10)});
  add(15, {share("a", 50, 10)});
  add(20, {});
  add(90, {});
  const ShareUse& use = only();
  EXPECT_FALSE(use.running);
  EXPECT_EQ(use.from, moment(10).wall);
  EXPECT_EQ(use.to, moment(20).wall);
  EXPECT_THAT(use.granted_card_seconds, DoubleNear(5, 1e-9));
  EXPECT_THAT(use.measured_seconds, DoubleNear(5, 1e-9));
}

TEST_F(UseAccountTest, AShareThatEndsWithinALongPauseIsNotGrantedInIt) {
  add(0, {share("a", 50, 10)});
  add(10, {share("a", 50, 10)});
  add(600, {});
  EXPECT_THAT(only().granted_card_seconds, DoubleNear(5, 1e-9));
  EXPECT_EQ(only().to, moment(10).wall);
}

TEST_F(UseAccountTest, AShareThatIsHeldBeforeAndAfterALongPauseIsGrantedInItAndNotMeasured) {
  add(0, {share("a", 50, 10)});
  add(600, {share("a", 50, 10)});
  EXPECT_THAT(only().granted_card_seconds, DoubleNear(300, 1e-9));
  EXPECT_EQ(only().measured_seconds, 0);
}

TEST_F(UseAccountTest, AContainerThatRestartsKeepsItsAccount) {
  add(0, {share("a", 50, 10)});
  add(5, {share("a", 50, 0)});  // without a process
  add(10, {share("a", 50, 10)});
  EXPECT_THAT(only().granted_card_seconds, DoubleNear(5, 1e-9));
  EXPECT_THAT(only().used_card_seconds, DoubleNear(0.5, 1e-9));
}

TEST_F(UseAccountTest, AShareThatComesBackIsNotGrantedInBetween) {
  add(0, {share("a", 50, 10)});
  add(5, {});
  add(65, {share("a", 50, 10)});
  add(70, {share("a", 50, 10)});
  EXPECT_TRUE(only().running);
  EXPECT_THAT(only().granted_card_seconds, DoubleNear(5, 1e-9));
  EXPECT_THAT(only().measured_seconds, DoubleNear(5, 1e-9));
}

// --- clocks --------------------------------------------------------------------------------------

TEST_F(UseAccountTest, ASuspendedMachineCountsAsStandingStill) {
  add(0, {share("a", 50, 10)});
  account_.add({moment(5).steady, moment(36'000).wall}, {share("a", 50, 10)}, true);
  EXPECT_THAT(only().granted_card_seconds, DoubleNear(2.5, 1e-9));
  EXPECT_THAT(only().measured_seconds, DoubleNear(5, 1e-9));
  EXPECT_EQ(only().to, moment(36'000).wall);
}

TEST_F(UseAccountTest, AWallClockThatGoesBackChangesNoAmount) {
  add(0, {share("a", 50, 10)});
  account_.add({moment(5).steady, kBegin - hours(24 * 365)}, {share("a", 50, 10)}, true);
  add(10, {share("a", 50, 10)});
  EXPECT_THAT(only().granted_card_seconds, DoubleNear(5, 1e-9));
  EXPECT_GE(only().to, only().from);
}

TEST_F(UseAccountTest, ASteadyClockThatGoesBackCountsAsStandingStill) {
  add(100, {share("a", 50, 10)});
  add(50, {share("a", 50, 10)});
  add(60, {share("a", 50, 10)});
  EXPECT_THAT(only().granted_card_seconds, DoubleNear(5, 1e-9));
  EXPECT_THAT(only().measured_seconds, DoubleNear(10, 1e-9));
}

// --- several shares ------------------------------------------------------------------------------

TEST_F(UseAccountTest, SharesOfSeveralCardsAndContainersAreSeparate) {
  const std::vector<HeldShare> held = {share("a", 50, 10, 100, 0), share("a", 50, 20, 200, 1),
                                       share("a", 20, 0, 300, 0, "side"), share("b", 10, 5)};
  add(0, held);
  add(10, held);
  std::map<std::string, std::pair<double, double>> found;
  for (const ShareUse* use : account_.shares()) {
    found[use->pod.name + "/" + use->container + "/" + use->grant.uuid.str()] = {
        use->granted_card_seconds, use->used_card_seconds};
  }
  const std::map<std::string, std::pair<double, double>> expected = {{"a/app/GPU-0", {5, 1}},
                                                                     {"a/app/GPU-1", {5, 2}},
                                                                     {"a/side/GPU-0", {2, 0}},
                                                                     {"b/app/GPU-0", {1, 0.5}}};
  EXPECT_EQ(found, expected);
}

TEST_F(UseAccountTest, APodThatReplacesOneOfTheSameNameHasAnAccountOfItsOwn) {
  HeldShare second = share("web-0", 50, 20);
  second.container.uid = PodUid("uid-second");
  add(0, {share("web-0", 50, 10)});
  add(10, {second});
  add(20, {second});
  const auto shares = account_.shares();
  ASSERT_THAT(shares, SizeIs(2));
  EXPECT_EQ(shares[0]->uid, PodUid("uid-second"));
  EXPECT_THAT(shares[0]->used_card_seconds, DoubleNear(2, 1e-9));
  EXPECT_FALSE(shares[1]->running);
  EXPECT_THAT(shares[1]->granted_card_seconds, DoubleNear(5, 1e-9));
}

TEST_F(UseAccountTest, OfTwoRecordsOfOneContainerAndCardTheFirstCounts) {
  add(0, {share("a", 50, 10), share("a", 50, 90)});
  add(10, {share("a", 50, 10), share("a", 50, 90)});
  EXPECT_THAT(only().granted_card_seconds, DoubleNear(5, 1e-9));
  EXPECT_THAT(only().used_card_seconds, DoubleNear(1, 1e-9));
}

// --- limits --------------------------------------------------------------------------------------

TEST_F(UseAccountTest, ListsWhatIsHeldFirstAndThenWhatEndedLast) {
  add(0, {share("a", 10, {}), share("b", 10, {}), share("c", 10, {})});
  add(5, {share("b", 10, {}), share("c", 10, {})});
  add(10, {share("c", 10, {})});
  EXPECT_THAT(pods(), ElementsAre("c", "b", "a"));
}

TEST_F(UseAccountTest, RemovesTheContainersThatEndedFirst) {
  const auto most = static_cast<int>(kEndedSharesMax);
  for (int n = 0; n < most + 2; ++n) add(5.0 * n, {share(std::to_string(n), 10, {})});
  add(5.0 * (most + 2), {});
  const auto names = pods();
  ASSERT_THAT(names, SizeIs(kEndedSharesMax));
  EXPECT_EQ(names.front(), std::to_string(most + 1));
  EXPECT_EQ(names.back(), "2");
  EXPECT_EQ(account_.left_out(), 2U);
}

TEST_F(UseAccountTest, RemovesContainersOfTheNamespaceThatHasTheMost) {
  HeldShare other = share("other", 10, {});
  other.container.pod.name_space = "prod";
  add(0, {other});
  const auto most = static_cast<int>(kEndedSharesMax);
  for (int n = 1; n <= most + 2; ++n) add(5.0 * n, {share(std::to_string(n), 10, {})});
  add(5.0 * (most + 3), {});
  const auto names = pods();
  ASSERT_THAT(names, SizeIs(kEndedSharesMax));
  EXPECT_EQ(names.back(), "other") << "it ended first";
  EXPECT_EQ(names[kEndedSharesMax - 2], "4");
  EXPECT_EQ(account_.left_out(), 3U);
}

TEST_F(UseAccountTest, RemovesTheContainerThatEndedFirstWhereNamespacesHaveEquallyMany) {
  const auto most = static_cast<int>(kEndedSharesMax);
  for (int n = 0; n < most; ++n) {
    HeldShare one = share(std::to_string(n), 10, {});
    one.container.pod.name_space = n % 2 == 0 ? "z" : "a";
    add(5.0 * n, {one});
  }
  HeldShare last = share("last", 10, {});
  last.container.pod.name_space = "m";
  add(5.0 * most, {last});
  add(5.0 * (most + 1), {});
  EXPECT_EQ(pods().back(), "1");
  EXPECT_EQ(account_.left_out(), 1U);
}

TEST_F(UseAccountTest, HasALimitForSharesThatAreHeld) {
  std::vector<HeldShare> held;
  for (std::size_t n = 0; n < kSharesMax + 3; ++n) held.push_back(share(std::to_string(n), 1, {}));
  add(0, held);
  add(5, held);
  EXPECT_THAT(account_.shares(), SizeIs(kSharesMax));
  EXPECT_EQ(account_.left_out(), 3U);
  held.resize(10);
  add(10, held);
  EXPECT_THAT(account_.shares(), SizeIs(10 + kEndedSharesMax));
  EXPECT_EQ(account_.left_out(), kSharesMax - 10 - kEndedSharesMax);
}

TEST_F(UseAccountTest, RecentSharesAreThoseThatAreHeldAndSomeThatEndedNotLongAgo) {
  add(0, {share("a", 10, {}), share("b", 10, {}), share("c", 10, {}), share("d", 10, {})});
  add(100, {share("b", 10, {}), share("c", 10, {}), share("d", 10, {})});
  add(200, {share("c", 10, {}), share("d", 10, {})});
  add(250, {share("d", 10, {})});
  const auto recent = [&](seconds age, std::size_t most) {
    std::vector<std::string> names;
    for (const ShareUse* one : account_.recent_shares(moment(260), age, most)) {
      names.push_back(one->pod.name);
    }
    return names;
  };
  EXPECT_THAT(recent(seconds(60), 10), ElementsAre("d", "c", "b"));
  EXPECT_THAT(recent(seconds(59), 10), ElementsAre("d", "c"));
  EXPECT_THAT(recent(hours(1), 1), ElementsAre("d", "c"));
  EXPECT_THAT(recent(hours(1), 0), ElementsAre("d"));
}

// --- a restart of the plugin ---------------------------------------------------------------------

class UseAccountRestart : public UseAccountTest {
 public:
  // Another process continues the account `wall` after it was saved, on a clock that begins anew.
  void restart(seconds wall) {
    const UseMoment last = moment(10);
    const SavedUse saved = account_.saved(last);
    next_ = last.wall + wall;
    account_ = UseAccount(saved, {milliseconds(0), next_});
  }
  void add_later(double after, const std::vector<HeldShare>& held) {
    account_.add({milliseconds(std::llround(after * 1'000)), next_}, held, true);
  }
  sys_seconds next_{};
};

TEST_F(UseAccountRestart, AShareIsGrantedWhileThePluginDoesNotRunAndNotMeasured) {
  for (const double after : {0, 5, 10}) add(after, {share("a", 50, 20)});
  restart(seconds(300));
  add_later(2, {share("a", 50, 20)});
  add_later(7, {share("a", 50, 20)});
  EXPECT_THAT(only().granted_card_seconds, DoubleNear(0.5 * (10 + 300 + 7), 1e-9));
  EXPECT_THAT(only().measured_seconds, DoubleNear(10 + 5, 1e-9));
  EXPECT_EQ(only().from, kBegin);
  EXPECT_EQ(account_.since(), kBegin);
}

TEST_F(UseAccountRestart, AShareThatEndedMeanwhileIsNotGrantedAfterTheLastSample) {
  for (const double after : {0, 5, 10}) add(after, {share("a", 50, 20)});
  restart(seconds(300));
  add_later(2, {});
  EXPECT_FALSE(only().running);
  EXPECT_THAT(only().granted_card_seconds, DoubleNear(5, 1e-9));
  EXPECT_EQ(only().to, moment(10).wall);
}

TEST_F(UseAccountRestart, ATimeThatCannotBeIsNotGranted) {
  for (const seconds wall : {seconds(-300), seconds(kUnwatchedMax) + seconds(1)}) {
    account_ = UseAccount(moment(0));
    for (const double after : {0, 5, 10}) add(after, {share("a", 50, 20)});
    restart(wall);
    add_later(2, {share("a", 50, 20)});
    EXPECT_THAT(only().granted_card_seconds, DoubleNear(6, 1e-9)) << wall.count();
  }
}

TEST_F(UseAccountRestart, KeepsEndedContainersAndWhatWasLeftOut) {
  add(0, {share("a", 50, 20)});
  add(5, {share("b", 50, 20)});
  SavedUse saved = account_.saved(moment(10));
  saved.left_out = 7;
  account_ = UseAccount(saved, {milliseconds(0), moment(20).wall});
  add_later(1, {share("b", 50, 20)});
  EXPECT_THAT(pods(), ElementsAre("b", "a"));
  EXPECT_EQ(account_.left_out(), 7U);
}

// --- the histogram -------------------------------------------------------------------------------

TEST(UseHistogram, ReturnsTheSmallestPercentageThatWasNotExceeded) {
  UseHistogram histogram;
  EXPECT_EQ(histogram.quantile(0.95), std::nullopt);
  histogram.add(0, 90);
  histogram.add(100, 10);
  EXPECT_EQ(histogram.quantile(0.9), 0);
  EXPECT_EQ(histogram.quantile(0.95), 100);
  histogram.add(-5, 100);
  EXPECT_EQ(histogram.quantile(0.95), 0);
  EXPECT_EQ(histogram.quantile(1), 100);
}

// --- recordings ----------------------------------------------------------------------------------

// The account of samples agrees with the exact result within 0.1 points of the card, and its 95th
// percentile within 2.
TEST(UseAccountReplay, AgreesWithTheExactResultOfARecording) {
  using Json = nlohmann::json;
  for (const std::string name : {"training", "inference", "gaps", "idle"}) {
    std::ifstream file(MGPU_SOURCE_DIR "/test/golden/use/" + name + ".json");
    const Json recording = Json::parse(file, nullptr, false);
    ASSERT_TRUE(recording.is_object()) << name;
    UseAccount account(moment(0));
    for (const Json& sample : recording["samples"]) {
      const auto percent = sample[1].is_null() ? std::nullopt : std::optional<double>(sample[1]);
      account.add(moment(sample[0].get<double>() / 1'000),
                  {share("a", recording["corePercent"], percent, sample[2])}, true);
    }
    const ShareUse& use = *account.shares().at(0);
    const Json& exact = recording["exact"];
    const double held = exact["heldSeconds"];
    const double measured = exact["secondsMeasured"];
    const double used = exact["cardSecondsUsed"];
    const double core = recording["corePercent"];
    EXPECT_NEAR(use.granted_card_seconds, core / 100 * held, 0.01) << name;
    EXPECT_NEAR(use.measured_seconds, measured, 0.01) << name;
    EXPECT_NEAR(100 * use.used_card_seconds / measured, 100 * used / measured, 0.1) << name;
    EXPECT_NEAR(*use.histogram.quantile(0.95), exact["corePercentP95"].get<double>(), 2) << name;
    EXPECT_EQ(use.memory_peak, MiB(exact["memoryMiBPeak"])) << name;
    EXPECT_EQ(use.samples, exact["samples"]) << name;
    RecordProperty(name, std::to_string(100 * (use.used_card_seconds - used) / measured));
  }
}

}  // namespace
}  // namespace mgpu::plugin
