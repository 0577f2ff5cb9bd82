// The compute mode of cards: what is set, what is restored, and by whom.
#include "plugin/cards/mps/compute_modes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "plugin/cards/mps/mps.h"
#include "test/plugin/cards/fake_driver.h"
#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

const CardUuid kCard0("GPU-0");
const CardUuid kCard1("GPU-1");
constexpr char kModeDefault[] = "0";
constexpr char kModeExclusive[] = "3";

template <class Value>
std::string mode_problem(const Result<Value>& result) {
  return result ? "" : result.error().message;
}

class ComputeModesTest : public testing::Test {
 public:
  ComputeModesTest() { driver_.set_scenario("card GPU-0\ncard GPU-1\n"); }

  NvmlCallOptions options(std::chrono::milliseconds timeout = std::chrono::hours(1)) const {
    NvmlCallOptions options;
    options.libraries = {beside_the_test("fake_nvml.so")};
    options.timeout = timeout;
    return options;
  }
  // What a process that was killed has left.
  void leave_file(const std::string& text) const {
    std::filesystem::create_directories(folder_.path("mps/GPU-0"));
    std::ofstream(folder_.path("mps/GPU-0/compute-mode")) << text;
  }

  FakeDriver driver_;
  test::ScratchFolder folder_;
  ComputeModes modes_{options(), folder_.path()};
};

TEST_F(ComputeModesTest, SetsExclusiveProcessAndClosesNvml) {
  const auto set = modes_.make_exclusive(kCard0);
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_TRUE(*set);
  EXPECT_EQ(driver_.mode("GPU-0"), kModeExclusive);
  EXPECT_EQ(driver_.mode("GPU-1"), "");
  EXPECT_EQ(driver_.log(), "init set_mode 3 shutdown");
  EXPECT_THAT(modes_.all_changed(), ElementsAre(kCard0));
}

TEST_F(ComputeModesTest, RestoresTheModeThatTheCardHadBefore) {
  driver_.set_mode("GPU-0", 1);
  ASSERT_TRUE(modes_.make_exclusive(kCard0));
  EXPECT_EQ(mode_problem(modes_.restore(kCard0)), "");
  EXPECT_EQ(driver_.mode("GPU-0"), "1");
  EXPECT_FALSE(modes_.changed(kCard0));
}

TEST_F(ComputeModesTest, ACardThatWasNotChangedNeedsNoDriver) {
  EXPECT_EQ(mode_problem(modes_.restore(kCard0)), "");
  EXPECT_EQ(driver_.log(), "");
  EXPECT_THAT(modes_.all_changed(), IsEmpty());
}

TEST_F(ComputeModesTest, AnotherProcessRestoresIt) {
  ASSERT_TRUE(modes_.make_exclusive(kCard0));
  ComputeModes other(options(), folder_.path());
  EXPECT_THAT(other.all_changed(), ElementsAre(kCard0));
  EXPECT_EQ(mode_problem(other.restore(kCard0)), "");
  EXPECT_EQ(driver_.mode("GPU-0"), kModeDefault);
  EXPECT_FALSE(modes_.changed(kCard0));
}

TEST_F(ComputeModesTest, AnotherProcessKeepsTheEarlierMode) {
  ASSERT_TRUE(modes_.make_exclusive(kCard0));
  ComputeModes other(options(), folder_.path());
  const auto again = other.make_exclusive(kCard0);
  ASSERT_TRUE(again);
  EXPECT_FALSE(*again) << "it has the mode";
  EXPECT_EQ(mode_problem(other.restore(kCard0)), "");
  EXPECT_EQ(driver_.mode("GPU-0"), kModeDefault);
}

// A process was killed after it had written the file, or the driver was reloaded.
TEST_F(ComputeModesTest, AModeThatIsNotExclusiveStays) {
  leave_file("0\n");
  driver_.set_mode("GPU-0", 1);
  EXPECT_EQ(mode_problem(modes_.restore(kCard0)), "");
  EXPECT_EQ(driver_.mode("GPU-0"), "1");
  EXPECT_FALSE(modes_.changed(kCard0));
}

TEST_F(ComputeModesTest, AModeThatWasSetSinceIsTheOneToRestore) {
  ASSERT_TRUE(modes_.make_exclusive(kCard0));
  driver_.set_mode("GPU-0", 1);
  const auto again = modes_.make_exclusive(kCard0);
  ASSERT_TRUE(again);
  EXPECT_TRUE(*again);
  EXPECT_EQ(driver_.mode("GPU-0"), kModeExclusive);
  EXPECT_EQ(mode_problem(modes_.restore(kCard0)), "");
  EXPECT_EQ(driver_.mode("GPU-0"), "1");
}

TEST_F(ComputeModesTest, ACardThatWasExclusiveBeforeStaysSo) {
  driver_.set_mode("GPU-0", 3);
  const auto set = modes_.make_exclusive(kCard0);
  ASSERT_TRUE(set);
  EXPECT_FALSE(*set);
  EXPECT_EQ(mode_problem(modes_.restore(kCard0)), "");
  EXPECT_EQ(driver_.mode("GPU-0"), kModeExclusive);
  EXPECT_EQ(driver_.log(), "init shutdown init shutdown");
}

TEST_F(ComputeModesTest, AProhibitedCardKeepsItsMode) {
  driver_.set_mode("GPU-0", 2);
  const std::string problem =
      "the compute mode of card GPU-0 is PROHIBITED; set it to DEFAULT, or remove the card from "
      "mgpu";
  EXPECT_EQ(mode_problem(modes_.make_exclusive(kCard0)), problem);
  EXPECT_EQ(mode_problem(modes_.check(kCard0)), problem);
  EXPECT_EQ(driver_.mode("GPU-0"), "2");
  EXPECT_FALSE(modes_.changed(kCard0));
}

TEST_F(ComputeModesTest, ErrorsSayWhatIsMissing) {
  for (const auto& [code, why] :
       {std::pair("4",
                  "the compute mode of card GPU-0 cannot be set: this program needs the rights "
                  "of root on the node"),
        std::pair("3",
                  "the compute mode of card GPU-0 cannot be set: this card does not support it"),
        std::pair("999", "nvmlDeviceSetComputeMode of card GPU-0 failed: Other (999)")}) {
    driver_.set_scenario(std::string("card GPU-0\nfail nvmlDeviceSetComputeMode ") + code + "\n");
    EXPECT_EQ(mode_problem(modes_.check(kCard0)), why);
    EXPECT_EQ(mode_problem(modes_.make_exclusive(kCard0)), why);
  }
  driver_.set_scenario("card GPU-0\nfail nvmlDeviceGetComputeMode 15\n");
  EXPECT_EQ(mode_problem(modes_.check(kCard0)),
            "nvmlDeviceGetComputeMode of card GPU-0 failed: GPU is lost (15)");
  EXPECT_EQ(mode_problem(modes_.make_exclusive(CardUuid("GPU-7"))), "NVML has no card GPU-7");
}

TEST_F(ComputeModesTest, AModeThatReadsBackDifferentlyIsAnError) {
  driver_.set_scenario("card GPU-0\nkeep_mode GPU-0\n");
  EXPECT_EQ(mode_problem(modes_.make_exclusive(kCard0)),
            "the compute mode of card GPU-0 was set to EXCLUSIVE_PROCESS, and is DEFAULT");
  EXPECT_TRUE(modes_.changed(kCard0)) << "restore() finds it";
}

TEST_F(ComputeModesTest, ACardThatCannotBeRestoredIsTriedAgain) {
  ASSERT_TRUE(modes_.make_exclusive(kCard0));
  driver_.set_scenario("card GPU-0\nfail nvmlDeviceSetComputeMode 999\n");
  EXPECT_THAT(mode_problem(modes_.restore(kCard0)), HasSubstr("nvmlDeviceSetComputeMode"));
  driver_.set_scenario("card GPU-0\n");
  EXPECT_EQ(mode_problem(modes_.restore(kCard0)), "");
  EXPECT_EQ(driver_.mode("GPU-0"), kModeDefault);
}

TEST_F(ComputeModesTest, TheCheckSetsTheModeThatTheCardHas) {
  EXPECT_EQ(mode_problem(modes_.check(kCard0)), "");
  EXPECT_EQ(driver_.log(), "init set_mode 0 shutdown");
  EXPECT_FALSE(modes_.changed(kCard0));
}

TEST_F(ComputeModesTest, ACallThatHangsIsAnErrorInTime) {
  driver_.set_scenario("card GPU-0\nhang nvmlDeviceSetComputeMode GPU-0\n");
  ComputeModes modes(options(std::chrono::milliseconds(1)), folder_.path());
  EXPECT_EQ(mode_problem(modes.make_exclusive(kCard0)),
            "the NVIDIA driver does not respond to NVML");
  driver_.set_scenario("card GPU-0\n");
}

TEST_F(ComputeModesTest, ACardThatHangsDoesNotDelayAnother) {
  driver_.set_scenario("card GPU-0\ncard GPU-1\nhang nvmlDeviceSetComputeMode GPU-0\n");
  std::thread hanging([this] { EXPECT_TRUE(modes_.make_exclusive(kCard0)); });
  while (!modes_.changed(kCard0)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  auto other = std::async(std::launch::async,
                          [this] { return mode_problem(modes_.make_exclusive(kCard1)); });
  EXPECT_EQ(other.wait_for(std::chrono::minutes(1)), std::future_status::ready);
  driver_.set_scenario("card GPU-0\ncard GPU-1\n");
  hanging.join();
  EXPECT_EQ(other.get(), "");
  EXPECT_EQ(driver_.mode("GPU-1"), kModeExclusive);
}

// Its container may have been deleted meanwhile, and another one have the whole card.
TEST_F(ComputeModesTest, ACallThatEndsTooLateChangesNothing) {
  driver_.set_scenario("card GPU-0\nhang nvmlDeviceGetComputeMode GPU-0\n");
  ComputeModes modes(options(std::chrono::milliseconds(1)), folder_.path());
  EXPECT_FALSE(modes.make_exclusive(kCard0));
  driver_.set_scenario("card GPU-0\n");
  // A restore succeeds once the call has ended.
  while (!modes.restore(kCard0)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(driver_.mode("GPU-0"), "");
  EXPECT_FALSE(modes.changed(kCard0));
}

TEST_F(ComputeModesTest, ACardCountsAsRestoredOnlyWhenNoEarlierCallCanChangeIt) {
  driver_.set_scenario("card GPU-0\nhang nvmlDeviceGetComputeMode GPU-0\n");
  ComputeModes modes(options(std::chrono::milliseconds(1)), folder_.path());
  EXPECT_FALSE(modes.make_exclusive(kCard0));
  EXPECT_FALSE(modes.changed(kCard0));
  EXPECT_EQ(mode_problem(modes.restore(kCard0)),
            "an earlier change of the compute mode of card GPU-0 has not ended: the NVIDIA driver "
            "does not respond to NVML");
  EXPECT_EQ(mode_problem(modes.restore(kCard1)), "");
  driver_.set_scenario("card GPU-0\n");
}

TEST_F(ComputeModesTest, NamesThatAreNotCardsAreNotChanged) {
  std::filesystem::create_directories(folder_.path("mps/.x"));
  std::ofstream(folder_.path("mps/.x/compute-mode")) << "0";
  ASSERT_TRUE(modes_.make_exclusive(kCard1));
  ASSERT_TRUE(modes_.make_exclusive(kCard0));
  EXPECT_THAT(modes_.all_changed(), UnorderedElementsAre(kCard0, kCard1));
  EXPECT_FALSE(modes_.changed(CardUuid("../GPU-1")));
}

// --- the end of a daemon ------------------------------------------------------------------------

class EndOfADaemon : public ComputeModesTest {
 public:
  EndOfADaemon() {
    mps_options_.control = beside_the_test("fake_mps_control");
    mps_options_.run_dir = folder_.path();
    mps_options_.modes = &modes_;
    mps_options_.times.tick = mps_options_.times.probe = std::chrono::milliseconds(10);
    mps_options_.times.command = mps_options_.times.start = std::chrono::hours(1);
  }
  // Runs a daemon, and ends it.
  void run_a_daemon() {
    Mps mps(mps_options_);
    mps.set_cards({kCard0});
    while (!mps.ready(kCard0)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ASSERT_TRUE(modes_.make_exclusive(kCard0));
    mps.stop();
  }

  MpsOptions mps_options_;
};

TEST_F(EndOfADaemon, RestoresTheModeOfItsCard) {
  run_a_daemon();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeDefault);
  EXPECT_FALSE(modes_.changed(kCard0));
}

// As when the node's profile changed while no process of mgpu ran.
TEST_F(EndOfADaemon, RestoresACardWhoseDaemonHasEndedBefore) {
  ASSERT_TRUE(modes_.make_exclusive(kCard0));
  Mps mps(mps_options_);
  mps.stop();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeDefault);
}

TEST_F(EndOfADaemon, AProcessThatOnlyWatchesLeavesTheModeToItsOwner) {
  ASSERT_TRUE(modes_.make_exclusive(kCard0));
  mps_options_.watch_only = true;
  Mps mps(mps_options_);
  mps.set_cards({kCard0});
  mps.stop();
  EXPECT_EQ(driver_.mode("GPU-0"), kModeExclusive);
}

}  // namespace
}  // namespace mgpu::plugin
