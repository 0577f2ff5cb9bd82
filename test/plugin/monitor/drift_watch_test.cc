#include "plugin/monitor/drift_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plugin/monitor/limits.h"
#include "test/plugin/monitor/drift_world.h"

namespace mgpu::plugin {
namespace {

using std::chrono::seconds;
using testing::IsEmpty;
using testing::SizeIs;

class DriftWatchTest : public testing::Test {
 public:
  // A healthy container uses its card.
  DriftWatchTest() { use_nothing_else(); }
  void use_nothing_else() { world_.use({process(0, 11, 5, "a", "app")}); }
  void use_another_card() {
    world_.use({process(0, 11, 5, "a", "app"), process(1, 11, 5, "a", "app")});
  }
  // "+ProcessWithoutShare -ChangedAnnotations": found and ended in a step after this time.
  std::string step(Duration later = seconds(5)) {
    world_.facts.now += later;
    const auto changes = watch_.step(world_.facts);
    std::string all;
    const auto add = [&all](const char* sign, const std::vector<Drift>& drifts) {
      for (const Drift& one : drifts) {
        all += (all.empty() ? "" : " ") + std::string(sign) + std::string(to_string(one.kind));
      }
    };
    add("+", changes.begun);
    add("-", changes.ended);
    return all;
  }
  std::string steps(int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += step();
    return all;
  }

  DriftWorld world_;
  DriftWatch watch_{world_.contract};
};

TEST_F(DriftWatchTest, AHealthyNodeHasNone) {
  EXPECT_EQ(steps(200), "");
  EXPECT_THAT(watch_.current(), IsEmpty());
  EXPECT_EQ(watch_.left_out(), 0U);
}

TEST_F(DriftWatchTest, ReportsWhatIsInTwoSamplesOnce) {
  use_another_card();
  EXPECT_EQ(step(), "");
  EXPECT_THAT(watch_.current(), IsEmpty());
  const Instant first = world_.facts.now;
  EXPECT_EQ(step(), "+ProcessWithoutShare");
  EXPECT_EQ(steps(100), "");
  ASSERT_THAT(watch_.current(), SizeIs(1));
  EXPECT_EQ(watch_.current()[0].since, first);
}

TEST_F(DriftWatchTest, SamplesInTheSameMomentAreOne) {
  use_another_card();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(step(Duration(1)), "");
  EXPECT_EQ(step(kDriftConfirm), "+ProcessWithoutShare");
}

TEST_F(DriftWatchTest, ASampleWithoutItStartsAgain) {
  for (int i = 0; i < 10; ++i) {
    use_another_card();
    EXPECT_EQ(step(), "");
    use_nothing_else();
    EXPECT_EQ(step(), "");
  }
}

TEST_F(DriftWatchTest, EndsAfterTwoSamplesWithoutIt) {
  use_another_card();
  ASSERT_EQ(steps(2), "+ProcessWithoutShare");
  use_nothing_else();
  EXPECT_EQ(step(), "");
  use_another_card();
  EXPECT_EQ(step(), "");
  use_nothing_else();
  EXPECT_EQ(step(), "");
  EXPECT_EQ(step(), "-ProcessWithoutShare");
  EXPECT_THAT(watch_.current(), IsEmpty());
  use_another_card();
  EXPECT_EQ(steps(2), "+ProcessWithoutShare") << "it is a new one";
}

TEST_F(DriftWatchTest, EndsWithItsPodWhateverTheDriverSays) {
  for (const std::string phase : {"", "Succeeded"}) {
    world_.run("b", "app", {0});
    world_.use({process(0, 11, 5, "a", "app"), process(1, 12, 5, "b", "app")});
    ASSERT_EQ(steps(2), "+ProcessWithoutShare");
    world_.facts.processes.reset();
    world_.pod("b").phase = phase;
    if (phase.empty())
      std::erase_if(world_.facts.pods,
                    [](const auto& pod) { return pod.uid() == PodUid("uid-b"); });
    EXPECT_EQ(step(), "-ProcessWithoutShare");
    std::erase_if(world_.facts.records, [](const auto& one) { return one.owner->pod.name == "b"; });
    use_nothing_else();
  }
}

TEST_F(DriftWatchTest, NothingIsConcludedFromADriverThatDoesNotAnswer) {
  use_another_card();
  ASSERT_EQ(steps(2), "+ProcessWithoutShare");
  world_.facts.processes.reset();
  EXPECT_EQ(steps(100), "");
  EXPECT_THAT(watch_.current(), SizeIs(1));
}

TEST_F(DriftWatchTest, FindsEveryKind) {
  world_.annotation() = "2";
  world_.use({process(1, 11, 5, "a", "app")});
  EXPECT_EQ(steps(2), "+ChangedAnnotations +ProcessWithoutShare");
  EXPECT_THAT(watch_.current(), SizeIs(kNodeDriftKinds.size()));
}

TEST_F(DriftWatchTest, TheMessageIsThatOfTheLastSample) {
  use_another_card();
  steps(2);
  world_.use({process(0, 11, 5, "a", "app"), process(1, 99, 5, "a", "app")});
  step();
  EXPECT_THAT(watch_.current().at(0).message, testing::HasSubstr("process 99"));
}

TEST_F(DriftWatchTest, ReportsAFewInEachStep) {
  for (int i = 0; i < 20; ++i) {
    world_.run("p" + std::to_string(i), "app", {0});
    world_.facts.processes->push_back(process(1, 100 + i, 5, "p" + std::to_string(i), "app"));
    world_.facts.processes->push_back(process(0, 100 + i, 5, "p" + std::to_string(i), "app"));
  }
  step();
  std::size_t all = 0;
  for (const std::size_t expected : {kDriftsReportedPerStep, kDriftsReportedPerStep,
                                     20 - 2 * kDriftsReportedPerStep, std::size_t{0}}) {
    const std::string found = step();
    EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(found, '+')), expected);
    all += expected;
    EXPECT_THAT(watch_.current(), SizeIs(all));
  }
}

TEST_F(DriftWatchTest, RemembersALimitedNumber) {
  constexpr std::size_t kMore = 7;
  for (std::size_t i = 0; i < kDriftsMax + kMore; ++i) {
    const std::string uid = std::to_string(i);
    world_.facts.processes->push_back(process(1, 100, 5, uid, "app"));
  }
  step();
  EXPECT_EQ(watch_.left_out(), kMore);
  use_nothing_else();
  steps(2);
  EXPECT_THAT(watch_.current(), IsEmpty());
  EXPECT_EQ(watch_.left_out(), 0U);
}

TEST_F(DriftWatchTest, CountsWhatWasLeftOutUntilItLooksAgain) {
  constexpr std::size_t kMore = 7;
  for (std::size_t i = 0; i < kDriftsMax + kMore; ++i) {
    const std::string uid = std::to_string(i);
    world_.facts.processes->push_back(process(1, 100, 5, uid, "app"));
  }
  step();
  world_.facts.processes.reset();
  step();
  EXPECT_EQ(watch_.left_out(), kMore);
}

}  // namespace
}  // namespace mgpu::plugin
