// Which cards are exclusive, from the start of a container to its end.
#include "plugin/agent/exclusive_cards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/log.h"
#include "test/plugin/cards/fake_driver.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {

using test::device_ids;
using testing::Contains;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

const CardUuid kCard0("GPU-0");
constexpr char kModeDefault[] = "0";
constexpr char kModeExclusive[] = "3";
constexpr char kBothCards[] = "card GPU-0\ncard GPU-1\n";

class ExclusiveCardsTest : public testing::Test {
 public:
  ExclusiveCardsTest() {
    EXPECT_TRUE(set_log_level("off"));
    driver_.set_scenario(kBothCards);
    start_plugin();
  }

  // As a new process: only files and the driver remember anything.
  void start_plugin(bool enabled = true) {
    exclusive_.reset();
    NvmlCallOptions options;
    options.libraries = {beside_the_test("fake_nvml.so")};
    options.timeout = std::chrono::hours(1);
    modes_ = std::make_unique<ComputeModes>(options, folder_.path("run"));
    exclusive_ = std::make_unique<ExclusiveCards>(*modes_, records_);
    exclusive_->enable(enabled);
  }

  // The record of a container with `core` percent of each of these cards.
  Record keep(const std::string& pod, int core, const std::vector<int>& cards) {
    Record record = test::started(test::allocated(device_ids(core, 100 * next_), pod), pod, 0);
    ++next_;
    record.cards.clear();
    for (const int card : cards) {
      record.cards.push_back(
          {CardIndex(card), CardUuid("GPU-" + std::to_string(card)), {Percent(core), MiB(1'000)}});
    }
    EXPECT_TRUE(records_.keep(record));
    return record;
  }
  // "started", or why it may not start.
  std::string start(const Record& record) {
    const auto started = exclusive_->before_start(record);
    return started ? "started" : started.error().message;
  }
  Record run(const std::string& pod, int core, const std::vector<int>& cards) {
    const Record record = keep(pod, core, cards);
    EXPECT_EQ(start(record), "started");
    return record;
  }
  void remove(const Record& record) { records_.remove(record.id); }

  // One step; `health` is that of card 0 at the driver.
  void follow(bool released = false, const std::string& health = std::string(kHealthy)) {
    exclusive_->follow({.cards = found(health),
                        .daemon_responds = [this](const CardUuid& card) { return responds(card); },
                        .released = released});
  }
  // What is read of the cards; `health` is that of card 0.
  std::vector<FoundCard> found(const std::string& health = std::string(kHealthy)) const {
    std::vector<FoundCard> cards;
    for (const int n : {0, 1}) {
      FoundCard card = test::found_card(n, n == 0 ? health : std::string(kHealthy));
      const std::string mode = driver_.mode(card.uuid.str());
      card.compute_mode = mode.empty() ? 0 : std::stoul(mode);
      cards.push_back(card);
    }
    return cards;
  }
  bool responds(const CardUuid& card) {
    const bool responds = daemons_.contains(card);
    if (ends_after_response_) daemons_.erase(card);
    return responds;
  }
  // A change of card 0 fails, and is noted.
  void fail_once() {
    driver_.set_mode("GPU-0", 0);
    driver_.set_scenario(std::string(kBothCards) + "fail nvmlDeviceSetComputeMode 999\n");
    follow();
    EXPECT_THAT(exclusive_->problem_of(kCard0), HasSubstr("nvmlDeviceSetComputeMode"));
    driver_.set_scenario(kBothCards);
  }

  FakeDriver driver_;
  test::ScratchFolder folder_;
  Records records_{folder_.path("records")};
  std::unique_ptr<ComputeModes> modes_;
  std::unique_ptr<ExclusiveCards> exclusive_;
  std::set<CardUuid> daemons_ = {kCard0, CardUuid("GPU-1")};
  bool ends_after_response_ = false;
  int next_ = 0;
};

// --- the start of a container --------------------------------------------------------------------

TEST_F(ExclusiveCardsTest, ACardIsExclusiveBeforeTheFirstPartOfItStarts) {
  run("a", 30, {1});
  EXPECT_EQ(driver_.mode("GPU-1"), kModeExclusive);
  EXPECT_EQ(driver_.mode("GPU-0"), "");
  EXPECT_THAT(exclusive_->exclusive(found()),
              UnorderedElementsAre(Pair(kCard0, false), Pair(CardUuid("GPU-1"), true)));
}

TEST_F(ExclusiveCardsTest, ACardWhoseModeWasNotSetIsNotReportedAsExclusive) {
  driver_.set_scenario(std::string(kBothCards) + "fail nvmlDeviceSetComputeMode 999\n");
  EXPECT_THAT(start(keep("a", 30, {0})), HasSubstr("nvmlDeviceSetComputeMode"));
  ASSERT_TRUE(modes_->changed(kCard0)) << "the earlier mode is kept before the mode is set";
  EXPECT_THAT(exclusive_->exclusive(found()), Contains(Pair(kCard0, false)));
}

TEST_F(ExclusiveCardsTest, AWholeCardHasItsEarlierModeBeforeItsContainerStarts) {
  const Record part = run("a", 30, {0});
  run("b", 100, {0});
  EXPECT_EQ(driver_.mode("GPU-0"), kModeDefault);
  follow();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeDefault)
      << "the record of the share that ended is still there";
  remove(part);
  follow();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeDefault);
}

TEST_F(ExclusiveCardsTest, APartAfterAWholeCardIsExclusiveThoughTheRecordOfThatStays) {
  const Record whole = run("a", 100, {0});
  run("b", 30, {0});
  follow();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeExclusive);
  remove(whole);
  follow();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeExclusive);
}

// Such a container does not start, and its record stays.
TEST_F(ExclusiveCardsTest, PartsOfSeveralCardsHaveNoInfluenceOnTheMode) {
  run("a", 30, {0});
  keep("b", 30, {0, 1});
  follow();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeExclusive) << "it does not take the protection from others";
  run("c", 30, {1});
  EXPECT_EQ(driver_.mode("GPU-1"), kModeExclusive);
}

// As after a restart of mgpu-mps. The record of a container that was refused stays.
TEST_F(ExclusiveCardsTest, AContainerThatDoesNotStartKeepsNoCardOutOfItsExclusiveMode) {
  run("a", 30, {0});
  keep("b", 30, {0, 1});
  ASSERT_TRUE(modes_->restore(kCard0));
  follow();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeExclusive);
}

TEST_F(ExclusiveCardsTest, AContainerWithSeveralWholeCardsStarts) {
  run("a", 100, {0, 1});
  EXPECT_EQ(driver_.mode("GPU-0"), "");
}

TEST_F(ExclusiveCardsTest, AContainerDoesNotStartWhereTheModeCannotBeSet) {
  driver_.set_scenario(std::string(kBothCards) + "fail nvmlDeviceSetComputeMode 4\n");
  EXPECT_EQ(
      start(keep("a", 30, {0})),
      "the compute mode of card GPU-0 cannot be set: this program needs the rights of root on "
      "the node");
}

// --- afterwards ----------------------------------------------------------------------------------

TEST_F(ExclusiveCardsTest, TheModeIsRestoredAfterTheLastPartHasEnded) {
  const Record a = run("a", 30, {0});
  const Record b = run("b", 30, {0});
  remove(a);
  follow();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeExclusive);
  remove(b);
  follow();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeDefault);
}

TEST_F(ExclusiveCardsTest, AModeThatWasChangedOutsideIsSetAgainOnceTheDaemonRuns) {
  run("a", 30, {0});
  driver_.set_mode("GPU-0", 0);
  daemons_.clear();
  follow();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeDefault) << "the daemon was ended, and the mode restored";
  daemons_ = {CardUuid("GPU-0")};
  follow();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeExclusive);
}

// mgpu-mps has ended it, and has restored the mode before it was set.
TEST_F(ExclusiveCardsTest, AModeIsNotSetForADaemonThatEndsMeanwhile) {
  run("a", 30, {0});
  driver_.set_mode("GPU-0", 0);
  ends_after_response_ = true;
  follow();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeDefault);
  EXPECT_FALSE(modes_->changed(kCard0));
}

// A daemon that crashed starts again, and must not find other programs on its card.
TEST_F(ExclusiveCardsTest, TheModeStaysWhileADaemonStartsAgain) {
  run("a", 30, {0});
  daemons_.clear();
  follow();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeExclusive);
}

TEST_F(ExclusiveCardsTest, ACardThatIsNotHealthyIsNotTouched) {
  const Record record = run("a", 30, {0});
  remove(record);
  follow(false, "XID 79");
  EXPECT_EQ(driver_.mode("GPU-0"), kModeExclusive);
  follow();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeDefault);
}

// The call of the driver took too long, and has set the mode afterwards.
TEST_F(ExclusiveCardsTest, AFailureEndsOnceTheCardIsExclusive) {
  run("a", 30, {0});
  fail_once();
  driver_.set_mode("GPU-0", 3);
  follow();
  EXPECT_EQ(exclusive_->problem_of(kCard0), "");
}

TEST_F(ExclusiveCardsTest, AFailureEndsWithTheNextContainerThatStarts) {
  run("a", 30, {0});
  fail_once();
  run("b", 30, {0});
  EXPECT_EQ(exclusive_->problem_of(kCard0), "");
}

TEST_F(ExclusiveCardsTest, AFailureEndsWhereTheModeMayStayAsItIs) {
  run("a", 30, {0});
  fail_once();
  keep("b", 100, {0});
  ASSERT_TRUE(modes_->restore(kCard0));
  follow();
  EXPECT_EQ(exclusive_->problem_of(kCard0), "");
}

// --- restarts and changes of the isolation -------------------------------------------------------

TEST_F(ExclusiveCardsTest, ARestartedPluginGoesOnWithTheCardsOfTheLastOne) {
  const Record a = run("a", 30, {0});
  run("b", 30, {1});
  remove(a);
  start_plugin();
  follow();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeDefault) << "its share ended meanwhile";
  EXPECT_EQ(driver_.mode("GPU-1"), kModeExclusive);
}

TEST_F(ExclusiveCardsTest, ContainersThatRanBeforeTheOptionWasSetAreProtected) {
  start_plugin(false);
  run("a", 30, {0});
  EXPECT_EQ(driver_.mode("GPU-0"), "");
  start_plugin(true);
  follow();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeExclusive);
}

TEST_F(ExclusiveCardsTest, WithoutTheOptionEveryCardIsRestored) {
  run("a", 30, {0});
  ASSERT_TRUE(modes_->make_exclusive(CardUuid("GPU-1")));
  start_plugin(false);
  follow();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeDefault);
  EXPECT_EQ(driver_.mode("GPU-1"), kModeDefault);
  EXPECT_TRUE(exclusive_->exclusive(found()).empty());
}

TEST_F(ExclusiveCardsTest, WithoutTheOptionAContainerDoesNotStartOnACardThatStaysExclusive) {
  run("a", 30, {0});
  start_plugin(false);
  driver_.set_scenario(std::string(kBothCards) + "fail nvmlDeviceSetComputeMode 999\n");
  EXPECT_THAT(start(keep("b", 100, {0})), HasSubstr("nvmlDeviceSetComputeMode of card GPU-0"));
  follow();
  EXPECT_THAT(exclusive_->problem_of(kCard0), HasSubstr("nvmlDeviceSetComputeMode"));
  driver_.set_scenario(kBothCards);
  follow();
  EXPECT_EQ(exclusive_->problem_of(kCard0), "");
}

TEST_F(ExclusiveCardsTest, AReleaseRestoresAndThenLeavesTheDriverAlone) {
  run("a", 30, {0});
  follow(true);
  EXPECT_EQ(driver_.mode("GPU-0"), kModeDefault);
  const std::string log = driver_.log();
  follow(true);
  EXPECT_EQ(driver_.log(), log);
  follow();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeExclusive) << "the container still runs";
}

// A call to it may never return, and would keep the driver in use.
TEST_F(ExclusiveCardsTest, AReleaseRestoresTheCardsThatWereHealthyBefore) {
  run("a", 30, {0});
  run("b", 30, {1});
  follow(false, "XID 79");
  const std::string log = driver_.log();
  follow(true, "the driver is released");
  EXPECT_EQ(driver_.log(), log + " init set_mode 0 shutdown") << "one card is called";
  EXPECT_EQ(driver_.mode("GPU-0"), kModeExclusive);
  EXPECT_EQ(driver_.mode("GPU-1"), kModeDefault);
}

TEST_F(ExclusiveCardsTest, AReleaseTriesAFewTimesToRestoreACard) {
  run("a", 30, {0});
  const std::string failing = std::string(kBothCards) + "fail nvmlDeviceSetComputeMode 999\n";
  driver_.set_scenario(failing);
  follow(true);
  driver_.set_scenario(kBothCards);
  follow(true);
  EXPECT_EQ(driver_.mode("GPU-0"), kModeDefault);
  follow();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeExclusive);
  driver_.set_scenario(failing);
  for (int i = 0; i < kReleaseRestoresMax; ++i) follow(true);
  const std::string log = driver_.log();
  follow(true);
  EXPECT_EQ(driver_.log(), log) << "the driver may be replaced now";
}

// Its start was decided before the node got the label.
TEST_F(ExclusiveCardsTest, NoPartStartsDuringARelease) {
  follow(true);
  const Record part = keep("a", 30, {0});
  EXPECT_EQ(start(part),
            "the driver is to be released, so that no container with a part of a card starts");
  EXPECT_EQ(driver_.mode("GPU-0"), "");
  follow();
  EXPECT_EQ(start(part), "started");
}

// --- cards that cannot be exclusive --------------------------------------------------------------

TEST_F(ExclusiveCardsTest, ACardWhoseModeCannotBeSetIsOfferedOnceItCan) {
  driver_.set_scenario(std::string(kBothCards) + "fail nvmlDeviceSetComputeMode 4 GPU-0\n");
  EXPECT_THAT(exclusive_->problem_of(kCard0), HasSubstr("needs the rights of root"));
  EXPECT_EQ(exclusive_->problem_of(CardUuid("GPU-1")), "");
  driver_.set_scenario(kBothCards);
  EXPECT_EQ(exclusive_->problem_of(kCard0), "");
}

TEST_F(ExclusiveCardsTest, WithoutTheOptionNoCardIsChecked) {
  start_plugin(false);
  driver_.set_scenario(std::string(kBothCards) + "fail nvmlDeviceSetComputeMode 4\n");
  EXPECT_EQ(exclusive_->problem_of(kCard0), "");
  EXPECT_EQ(driver_.log(), "");
}

}  // namespace
}  // namespace mgpu::plugin
