// How the shares of a node are enforced, and which cards it offers for that.
#include "plugin/agent/isolation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <thread>

#include "common/base/log.h"
#include "plugin/cards/limits.h"
#include "plugin/cards/mps/mps_process.h"
#include "test/plugin/cards/fake_driver.h"
#include "test/plugin/containers/limit_client.h"
#include "test/plugin/kubelet/fake_kubelet.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

constexpr char kOld[] = "the driver has no nvmlDeviceSetMemoryLimits_v1, which R615 and later have";
constexpr char kUuid[] = "GPU-6d677075-0000-4000-8000-000000000001";
constexpr char kTwoCards[] = "card GPU-0\ncard GPU-1\n";

class IsolationTest : public testing::Test {
 public:
  IsolationTest() {
    EXPECT_TRUE(set_log_level("off"));
    driver_.set_scenario(kTwoCards);
    driver_.add_file("/sys/fs/cgroup/cgroup.controllers");
    options_.nvml.libraries = {beside_the_test("fake_nvml_r615.so")};
    options_.nvml.node_root = driver_.root();
    options_.nvml.timeout = std::chrono::hours(1);
    options_.hook_folder = folder_.path();
    options_.run_folder = folder_.path("run");
    options_.proc_folder = folder_.path("proc");
    options_.mps.control = folder_.path("no-such-program");
    options_.mps.run_dir = folder_.path("run");
  }

  void make(IsolationMode mode) {
    options_.mode = mode;
    isolation_ = std::make_unique<Isolation>(options_, records_, [this] { return cards_; });
  }
  IsolationMode choose(IsolationMode mode) {
    make(mode);
    isolation_->prepare();
    isolation_->choose();
    return isolation_->chosen();
  }
  void switch_to(IsolationMode mode) { isolation_->switch_to(mode, options_.compute); }
  void old_driver() { options_.nvml.libraries = {beside_the_test("fake_nvml.so")}; }
  // The node can have the library in containers.
  void install_library() {
    options_.library_folder = folder_.path("libraries");
    std::filesystem::create_directories(options_.library_folder);
    for (const char* const name : {"/libmgpu-cuda.so", "/libmgpu-nvml.so"}) {
      std::ofstream(options_.library_folder + name) << name;
    }
    std::filesystem::create_directories(folder_.path("proc/1/ns"));
    std::filesystem::copy_symlink("/proc/self/ns/mnt", folder_.path("proc/1/ns/mnt"));
    cards_[0].uuid = CardUuid(kUuid);
  }

  // The health of two cards of which the driver reports no problem.
  std::vector<std::string> health() const {
    std::vector<std::string> all;
    for (const char* card : {"GPU-0", "GPU-1"}) {
      const std::string problem = isolation_->problem_of(
          {.uuid = CardUuid(card), .model = "V100", .memory = MiB(32'510)}, {});
      all.push_back(problem.empty() ? std::string(kHealthy) : problem);
    }
    return all;
  }

  FakeDriver driver_;
  test::ScratchFolder folder_;
  IsolationOptions options_;
  Records records_{folder_.path("records")};
  std::vector<CardFacts> cards_ = {test::card_facts(0), test::card_facts(1)};
  std::unique_ptr<Isolation> isolation_;
};

TEST_F(IsolationTest, NoneAndMpsNeedNoDriver) {
  old_driver();
  EXPECT_EQ(choose(IsolationMode::kNone), IsolationMode::kNone);
  EXPECT_EQ(isolation_->mps().daemons(), nullptr);
  EXPECT_EQ(choose(IsolationMode::kMps), IsolationMode::kMps);
  EXPECT_NE(isolation_->mps().daemons(), nullptr);
  ASSERT_NE(isolation_->limits().mps_hook, nullptr);
  EXPECT_EQ(isolation_->limits().mps_hook->socket, "") << "it asks the daemon";
  EXPECT_THAT(health(), Each(kHealthy));
}

TEST_F(IsolationTest, SwitchesToAnotherMode) {
  choose(IsolationMode::kNone);
  switch_to(IsolationMode::kDriver);
  EXPECT_EQ(isolation_->chosen(), IsolationMode::kDriver);
  ASSERT_NE(isolation_->limits().driver_hook, nullptr);
  EXPECT_EQ(isolation_->limits().driver_hook->problem, "");
  EXPECT_THAT(health(), Each(kHealthy));
  switch_to(IsolationMode::kMps);
  ASSERT_NE(isolation_->limits().mps_hook, nullptr);
  EXPECT_EQ(isolation_->limits().mps_hook->socket, "") << "it asks the daemon";
  EXPECT_NE(isolation_->mps().daemons(), nullptr);
  switch_to(IsolationMode::kNone);
  EXPECT_EQ(isolation_->mps().daemons(), nullptr);
  EXPECT_THAT(isolation_->mps().states(), IsEmpty());
  switch_to(IsolationMode::kDriver);
  EXPECT_NE(isolation_->limits().driver_hook, nullptr);
}

TEST_F(IsolationTest, ExclusiveCardsNeedTheRightsToSetTheComputeModeWithMpsOnly) {
  options_.mps_exclusive = true;
  driver_.set_scenario(std::string(kTwoCards) + "fail nvmlDeviceSetComputeMode 4 GPU-0\n");
  choose(IsolationMode::kMps);
  EXPECT_THAT(health(), ElementsAre(HasSubstr("needs the rights of root on the node"), kHealthy));
  EXPECT_THAT(isolation_->mps().exclusive().exclusive(test::found_cards(2).cards), SizeIs(2));
  switch_to(IsolationMode::kNone);
  EXPECT_THAT(health(), Each(kHealthy));
  EXPECT_THAT(isolation_->mps().exclusive().exclusive(test::found_cards(2).cards), IsEmpty());
}

class DaemonOfAnExclusiveCard : public IsolationTest {
 public:
  DaemonOfAnExclusiveCard() {
    options_.mps_exclusive = true;
    options_.mps.control = beside_the_test("fake_mps_control");
    options_.mps.times.command = options_.mps.times.start = std::chrono::hours(1);
  }
  ~DaemonOfAnExclusiveCard() override {
    isolation_.reset();
    kill_daemon();
  }
  // A container with a part of the card runs.
  void run_daemon() {
    choose(IsolationMode::kMps);
    isolation_->mps().set_cards({kCard});
    wait_until([this] { return isolation_->mps().daemons()->ready(kCard).has_value(); });
    const Record record = test::started(test::allocated(test::device_ids(30), "a"), "a", 0);
    ASSERT_TRUE(records_.keep(record));
    ASSERT_TRUE(isolation_->before_start(record));
    ASSERT_EQ(driver_.mode("GPU-0"), "3");
  }
  void kill_daemon() const {
    const auto daemon = known_mps_daemon(mps_folders(folder_.path("run"), kCard));
    if (daemon) kill_mps_daemon(*daemon);
  }
  static void wait_until(const std::function<bool()>& condition) {
    while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }

  const CardUuid kCard{"GPU-0"};
};

// The last process was killed, or had another --isolation.
TEST_F(DaemonOfAnExclusiveCard, AnotherModeRestoresTheCardsThatMpsHasMadeExclusive) {
  run_daemon();
  choose(IsolationMode::kNone);
  isolation_->mps().follow_modes(test::found_cards(2).cards, false);
  EXPECT_EQ(driver_.mode("GPU-0"), "0");
}

// The card may not be healthy, and a call to it may never return.
TEST_F(DaemonOfAnExclusiveCard, ItsEndUsesNoDriver) {
  options_.mps.times.tick = options_.mps.times.probe = std::chrono::milliseconds(10);
  run_daemon();
  const std::string log = driver_.log();
  isolation_->mps().set_cards({});
  wait_until([this] { return isolation_->mps().states().empty(); });
  EXPECT_EQ(driver_.log(), log);
}

// It is looked for in long intervals, and its process may have ended it since.
TEST_F(DaemonOfAnExclusiveCard, ItIsAskedBeforeAModeIsSetAgain) {
  options_.mps.times.tick = options_.mps.times.probe = std::chrono::hours(1);
  run_daemon();
  driver_.set_mode("GPU-0", 0);
  kill_daemon();
  ASSERT_TRUE(isolation_->mps().states().at(0).running) << "as last seen";
  isolation_->mps().follow_modes(test::found_cards(1).cards, false);
  EXPECT_EQ(driver_.mode("GPU-0"), "0");
}

// A program that opened the card before its server would keep it.
TEST_F(DaemonOfAnExclusiveCard, ItsServerRunsBeforeTheModeIsSet) {
  ASSERT_TRUE(make_mps_folders(mps_folders(folder_.path("run"), kCard)));
  const std::string behaviour = folder_.path("run/mps/GPU-0/behaviour");
  std::ofstream(behaviour) << "initializing\n";
  options_.mps.times.tick = options_.mps.times.probe = std::chrono::milliseconds(10);
  choose(IsolationMode::kMps);
  isolation_->mps().set_cards({kCard});
  const Record record = test::started(test::allocated(test::device_ids(30), "a"), "a", 0);
  ASSERT_TRUE(records_.keep(record));
  std::string refusal;
  wait_until([&] {
    refusal = isolation_->before_start(record).error().message;
    return refusal.find("its server is being started") != refusal.npos;
  });
  isolation_->mps().follow_modes(test::found_cards(1).cards, false);
  EXPECT_NE(driver_.mode("GPU-0"), "3");
  std::filesystem::remove(behaviour);
  wait_until([&] { return isolation_->before_start(record).has_value(); });
  EXPECT_EQ(driver_.mode("GPU-0"), "3");
}

TEST_F(IsolationTest, ALaterSwitchToTheDriverTriesAgain) {
  options_.hook_folder = folder_.path("hook");
  std::ofstream(folder_.path("hook")) << "in the way";
  choose(IsolationMode::kDriver);
  EXPECT_NE(isolation_->limits().driver_hook->problem, "");
  switch_to(IsolationMode::kNone);
  std::filesystem::remove(folder_.path("hook"));
  switch_to(IsolationMode::kDriver);
  EXPECT_EQ(isolation_->limits().driver_hook->problem, "");
}

TEST_F(IsolationTest, AutoOffersTheCardsAfterTheDriversHookCouldNotBeInstalled) {
  options_.hook_folder = folder_.path("hook");
  std::ofstream(folder_.path("hook")) << "in the way";
  choose(IsolationMode::kDriver);
  EXPECT_THAT(health(), Each(HasSubstr(options_.hook_folder)));
  std::filesystem::remove(folder_.path("hook"));
  switch_to(IsolationMode::kAuto);
  EXPECT_EQ(isolation_->chosen(), IsolationMode::kDriver);
  EXPECT_EQ(isolation_->limits().driver_hook->problem, "");
  EXPECT_THAT(health(), Each(kHealthy));
}

// --- the driver ----------------------------------------------------------------------------------

TEST_F(IsolationTest, TheDriverOffersCardsWhoseMemoryItCanLimit) {
  EXPECT_EQ(choose(IsolationMode::kDriver), IsolationMode::kDriver);
  EXPECT_THAT(health(), ElementsAre(kHealthy, kHealthy));
  EXPECT_THAT(driver_.limits(), SizeIs(4)) << "one limit of each card was set and cleared";
  EXPECT_THAT(health(), ElementsAre(kHealthy, kHealthy));
  EXPECT_THAT(driver_.limits(), SizeIs(4)) << "a card is checked until it works";
}

TEST_F(IsolationTest, TheHookIsCopiedToWhereTheRuntimeFindsIt) {
  choose(IsolationMode::kDriver);
  ASSERT_NE(isolation_->limits().driver_hook, nullptr);
  EXPECT_EQ(isolation_->limits().driver_hook->problem, "");
  EXPECT_EQ(isolation_->limits().driver_hook->program, folder_.path("mgpu-set-limits"));
  EXPECT_EQ(isolation_->limits().driver_hook->socket, folder_.path("run/limits.sock"));
  EXPECT_EQ(::access(folder_.path("mgpu-set-limits").c_str(), X_OK), 0);
}

TEST_F(IsolationTest, AnotherPathOfTheHookIsUsedAsItIs) {
  options_.hook_path = "/opt/mgpu/mgpu-set-limits";
  choose(IsolationMode::kDriver);
  EXPECT_EQ(isolation_->limits().driver_hook->program, "/opt/mgpu/mgpu-set-limits");
  EXPECT_FALSE(std::filesystem::exists(folder_.path("mgpu-set-limits")));
}

TEST_F(IsolationTest, AnOldDriverOffersNoCards) {
  old_driver();
  choose(IsolationMode::kDriver);
  EXPECT_THAT(health(), ElementsAre(kOld, kOld));
}

TEST_F(IsolationTest, CgroupV1OffersNoCards) {
  std::filesystem::remove(driver_.root() + "/sys/fs/cgroup/cgroup.controllers");
  choose(IsolationMode::kDriver);
  EXPECT_THAT(health(), Each(HasSubstr("the limits of the driver need cgroup v2 in ")));
}

TEST_F(IsolationTest, WithoutAHookThereAreNoCardsAndNoContainerStarts) {
  options_.hook_folder = "/dev/null";
  choose(IsolationMode::kDriver);
  EXPECT_THAT(isolation_->limits().driver_hook->problem, HasSubstr("/dev/null"));
  EXPECT_THAT(health(), Each(HasSubstr("/dev/null")));
}

TEST_F(IsolationTest, ACardThatCannotBeLimitedIsOfferedOnceItCan) {
  driver_.set_scenario(std::string(kTwoCards) + "fail nvmlDeviceSetMemoryLimits_v1 3 GPU-1\n");
  choose(IsolationMode::kDriver);
  EXPECT_THAT(
      health(),
      ElementsAre(kHealthy, "nvmlDeviceSetMemoryLimits_v1 of card GPU-1 failed: Other (3)"));
  driver_.set_scenario(kTwoCards);
  EXPECT_THAT(health(), ElementsAre(kHealthy, kHealthy));
}

TEST_F(IsolationTest, AfterAFailedStartTheCardsAreCheckedAndNotedAgain) {
  const std::string note = folder_.path("driver-limits");
  choose(IsolationMode::kDriver);
  EXPECT_THAT(health(), Each(kHealthy));
  ASSERT_TRUE(std::filesystem::remove(note));
  EXPECT_THAT(health(), Each(kHealthy));
  EXPECT_FALSE(std::filesystem::exists(note)) << "it is written once";
  const test::LimitClient client(folder_.path("run/limits.sock"));
  client.send(test::allocated(test::device_ids(30), "a").id.str() + " 1\n");
  EXPECT_THAT(client.reply(), HasSubstr("is not that of a started container"));
  EXPECT_THAT(health(), Each(kHealthy));
  EXPECT_THAT(driver_.limits(), SizeIs(8)) << "each card was checked twice";
  EXPECT_TRUE(std::filesystem::exists(note));
}

// --- auto ----------------------------------------------------------------------------------------

TEST_F(IsolationTest, AutoIsTheDriverWhereItCanLimitACard) {
  driver_.set_scenario(std::string(kTwoCards) + "fail nvmlDeviceSetMemoryLimits_v1 16 GPU-0\n");
  EXPECT_EQ(choose(IsolationMode::kAuto), IsolationMode::kDriver);
  EXPECT_NE(isolation_->limits().driver_hook, nullptr);
  EXPECT_EQ(isolation_->mps().daemons(), nullptr);
  EXPECT_THAT(health(), ElementsAre(HasSubstr("failed: "), kHealthy))
      << "the other card is not offered";
}

TEST_F(IsolationTest, NoContainerWithAPartOfACardStartsWithoutTheDaemonOfItsCard) {
  choose(IsolationMode::kMps);
  const Record record = test::started(test::allocated(test::device_ids(30), "a"), "a", 0);
  EXPECT_EQ(isolation_->before_start(record).error().message,
            "MPS of card \"GPU-0\" does not run: it is not started yet");
  isolation_->mps().set_cards({CardUuid("GPU-0")});
  EXPECT_TRUE(test::eventually([&] {
    const auto ready = isolation_->before_start(record);
    return !ready && ready.error().message.find("no-such-program") != std::string::npos;
  }));
}

TEST_F(IsolationTest, AContainerWithAWholeCardStartsWithoutMps) {
  choose(IsolationMode::kMps);
  Record record = test::started(test::allocated(test::device_ids(100), "a"), "a", 0);
  record.cards[0].share = {kWholeCard, MiB(test::kCardMemory)};
  EXPECT_TRUE(isolation_->before_start(record));
}

// The hook's place is taken.
TEST_F(IsolationTest, AutoIsTheLibraryWhereTheHookCannotBeInstalled) {
  std::filesystem::create_directories(folder_.path("mgpu-set-limits/x"));
  install_library();
  EXPECT_EQ(choose(IsolationMode::kAuto), IsolationMode::kIntercept);
  EXPECT_THAT(isolation_->fallback(), AllOf(StartsWith("--isolation=auto is intercept, because "),
                                            HasSubstr("mgpu-set-limits")));
  EXPECT_THAT(health(), Each(HasSubstr("its UUID is not"))) << "GPU-0";
  EXPECT_EQ(
      isolation_->problem_of({.uuid = CardUuid(kUuid), .model = "V100", .memory = MiB(1)}, {}), "");
  EXPECT_EQ(isolation_->mps().daemons(), nullptr);
  EXPECT_EQ(isolation_->limits().driver_hook, nullptr);
  EXPECT_NE(isolation_->limits().library, nullptr);
  switch_to(IsolationMode::kNone);
  EXPECT_EQ(isolation_->limits().library, nullptr);
  EXPECT_EQ(isolation_->fallback(), "");
}

TEST_F(IsolationTest, AutoIsTheLibraryWhereTheDriverCannotLimitAnyCard) {
  install_library();
  driver_.set_scenario("card " + std::string(kUuid) + "\nfail nvmlDeviceSetMemoryLimits_v1 3\n");
  EXPECT_EQ(choose(IsolationMode::kAuto), IsolationMode::kIntercept);
  for (const std::string name : {"libmgpu-cuda.so", "libmgpu-nvml.so"}) {
    EXPECT_TRUE(std::filesystem::exists(folder_.path(name))) << "containers get it from there";
  }
}

TEST_F(IsolationTest, TheLibraryMakesThePagesOfAContainerBeforeItStarts) {
  install_library();
  ASSERT_EQ(::unshare(CLONE_NEWNS), 0) << "this test needs root";
  ASSERT_EQ(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  std::filesystem::remove(folder_.path("proc/1/ns/mnt"));
  std::filesystem::copy_symlink("/proc/self/ns/mnt", folder_.path("proc/1/ns/mnt"));
  choose(IsolationMode::kIntercept);
  Record record = test::started(test::allocated(test::device_ids(30), "a"), "a", 0);
  record.cards.front().uuid = CardUuid(kUuid);
  ASSERT_TRUE(isolation_->before_start(record));
  const std::string pages = isolation_->limits().library->pages + "/" + record.id.str();
  EXPECT_TRUE(std::filesystem::exists(pages + "/" + kUuid + "/limits"));
  isolation_->on_removed(record.id);
  EXPECT_FALSE(std::filesystem::exists(pages));
}

// The program says that it cannot test the card.
TEST_F(IsolationTest, NoSelfTestRunsOnAnOfferedCardThatPodsHold) {
  install_library();
  options_.self_test = true;
  const std::string program = options_.library_folder + "/mgpu-check-share";
  const std::string runs = folder_.path("runs");
  std::ofstream(program) << "#!/bin/sh\necho >>" << runs << "\necho skipped start: busy\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  driver_.add_file("/lib/libcuda.so.1");
  const Edits shared{.mounts = {{"/lib/libcuda.so.1", "/usr/lib64/libcuda.so.1"}}};
  choose(IsolationMode::kIntercept);
  // What is known of the card once its test has ended.
  const auto why = [&] {
    const FoundCard card{.uuid = CardUuid(kUuid), .model = "V100", .memory = MiB(32'510)};
    static_cast<void>(isolation_->problem_of(card, shared));
    EXPECT_TRUE(test::eventually([&] { return !isolation_->library().self_tests().running(); }));
    EXPECT_EQ(isolation_->problem_of(card, shared), "") << "it is offered";
    return isolation_->self_tests().at(card.uuid).why;
  };
  EXPECT_EQ(why(), "start: busy");
  Record record = test::started(test::allocated(test::device_ids(30), "a"), "a", 0);
  record.cards.front().uuid = CardUuid(kUuid);
  ASSERT_TRUE(records_.keep(record));
  driver_.add_file("/lib/libcuda.so.1", "another");
  EXPECT_EQ(why(), "pods hold parts of the card");
  EXPECT_EQ(std::filesystem::file_size(runs), 1U);
}

TEST_F(IsolationTest, ACardWithoutMemoryOfItsOwnIsNotTested) {
  install_library();
  options_.self_test = true;
  choose(IsolationMode::kIntercept);
  FoundCard card{.uuid = CardUuid(kUuid), .model = "GB10", .memory = kNoMemoryOfItsOwn};
  EXPECT_EQ(isolation_->problem_of(card, {}), "");
  EXPECT_THAT(isolation_->self_tests(), IsEmpty());
  card.memory = MiB(32'510);
  EXPECT_EQ(isolation_->problem_of(card, {}), kSelfTestRuns);
}

TEST_F(IsolationTest, NoCardIsOfferedWithoutTheLibrary) {
  install_library();
  std::filesystem::remove(options_.library_folder + "/libmgpu-cuda.so");
  choose(IsolationMode::kIntercept);
  EXPECT_THAT(health(), Each(HasSubstr("libmgpu-cuda.so")));
  EXPECT_EQ(choose(IsolationMode::kAuto), IsolationMode::kDriver);
  old_driver();
  EXPECT_EQ(choose(IsolationMode::kAuto), IsolationMode::kNone);
  EXPECT_THAT(isolation_->fallback(), AllOf(StartsWith("--isolation=auto is none, because "),
                                            HasSubstr(kOld), HasSubstr("libmgpu-cuda.so")))
      << "the doctor of kubectl mgpu finds this beginning";
}

// Some nodes run no programs from the folder of the plugin. PreStart asks the daemon, too.
TEST_F(IsolationTest, MpsWorksWithoutItsHook) {
  options_.hook_folder = folder_.path("hook");
  std::ofstream(folder_.path("hook")) << "in the way";
  choose(IsolationMode::kMps);
  EXPECT_EQ(isolation_->limits().mps_hook, nullptr);
  EXPECT_THAT(health(), Each(kHealthy));
}

// --- MPS besides ---------------------------------------------------------------------------------

TEST_F(IsolationTest, MpsLimitsComputeBesidesTheDriversLimitsOfMemory) {
  options_.compute = ComputeMode::kMps;
  choose(IsolationMode::kDriver);
  EXPECT_EQ(isolation_->compute(), ComputeMode::kMps);
  const ShareLimits limits = isolation_->limits();
  EXPECT_NE(limits.mps, nullptr);
  ASSERT_NE(limits.mps_hook, nullptr);
  EXPECT_EQ(limits.mps_hook->socket, "") << "it asks the daemon";
  ASSERT_NE(limits.driver_hook, nullptr);
  EXPECT_EQ(limits.driver_hook->socket, folder_.path("run/limits.sock"));
  EXPECT_TRUE(isolation_->parts_of_one_card());
  switch_to(IsolationMode::kNone);
  EXPECT_EQ(isolation_->compute(), ComputeMode::kNone) << "nothing limits memory";
  EXPECT_EQ(isolation_->mps().daemons(), nullptr);
}

TEST_F(IsolationTest, MpsLimitsComputeBesidesTheLibrary) {
  options_.compute = ComputeMode::kMps;
  old_driver();
  install_library();
  make(IsolationMode::kAuto);
  EXPECT_THAT(isolation_->mps().states(), IsEmpty()) << "it is not chosen yet";
  EXPECT_EQ(choose(IsolationMode::kAuto), IsolationMode::kIntercept);
  const ShareLimits limits = isolation_->limits();
  EXPECT_NE(limits.mps, nullptr);
  EXPECT_NE(limits.mps_hook, nullptr);
  EXPECT_EQ(limits.driver_hook, nullptr);
  ASSERT_NE(limits.library, nullptr);
  EXPECT_EQ(limits.library->compute, std::nullopt) << "it deals no turns";
  const FoundCard card{.uuid = CardUuid(kUuid), .model = "V100", .memory = MiB(1)};
  EXPECT_EQ(isolation_->problem_of(card, {}), "");
  FoundCard old = card;
  old.compute_capability = {6, 1};
  EXPECT_THAT(isolation_->problem_of(old, {}), StartsWith("MPS cannot limit programs"));
  FoundCard device = card;
  device.uuid = CardUuid("MIG-6d677075-0000-4000-8000-000000000001");
  EXPECT_EQ(isolation_->problem_of(device, {}), "is a MIG device, whose parts MPS cannot limit");
  const Record record = test::started(test::allocated(test::device_ids(30), "a"), "a", 0);
  EXPECT_THAT(isolation_->before_start(record).error().message, StartsWith("MPS of card "));
}

TEST_F(IsolationTest, TurnsAreOfTheLibraryOnly) {
  options_.compute = ComputeMode::kFixed;
  install_library();
  choose(IsolationMode::kDriver);
  EXPECT_EQ(isolation_->compute(), ComputeMode::kNone);
  EXPECT_EQ(isolation_->mps().daemons(), nullptr);
  switch_to(IsolationMode::kIntercept);
  EXPECT_EQ(isolation_->compute(), ComputeMode::kFixed);
  EXPECT_EQ(isolation_->limits().library->compute, TurnRule::kFixed);
  isolation_->switch_to(IsolationMode::kIntercept, ComputeMode::kBurst);
  EXPECT_EQ(isolation_->limits().library->compute, TurnRule::kBurst);
  isolation_->switch_to(IsolationMode::kIntercept, ComputeMode::kNone);
  EXPECT_EQ(isolation_->limits().library->compute, std::nullopt);
}

// Containers beside those of the earlier process must not be without limits.
TEST_F(IsolationTest, AutoStaysTheDriverWhereNoCardWorksAnyMore) {
  EXPECT_EQ(choose(IsolationMode::kAuto), IsolationMode::kDriver);
  driver_.set_scenario(std::string(kTwoCards) + "fail nvmlDeviceSetMemoryLimits_v1 16\n");
  install_library();
  EXPECT_EQ(choose(IsolationMode::kAuto), IsolationMode::kDriver);
  EXPECT_THAT(health(), Each(HasSubstr("failed: ")));
}

// --isolation=driver was tried on a node that cannot, and taken back.
TEST_F(IsolationTest, AutoIsTheLibraryWhereTheDriverNeverWorked) {
  driver_.set_scenario(std::string(kTwoCards) + "fail nvmlDeviceSetMemoryLimits_v1 3\n");
  EXPECT_EQ(choose(IsolationMode::kDriver), IsolationMode::kDriver);
  install_library();
  EXPECT_EQ(choose(IsolationMode::kAuto), IsolationMode::kIntercept);
}

TEST_F(IsolationTest, AutoDoesNotTouchAnUnhealthyCardBesideAHealthyOne) {
  cards_[0].health = "the driver does not respond";
  driver_.set_scenario(std::string(kTwoCards) + "hang nvmlDeviceSetMemoryLimits_v1 GPU-0\n");
  EXPECT_EQ(choose(IsolationMode::kAuto), IsolationMode::kDriver);
}

TEST_F(IsolationTest, AutoIsTheDriverBeforeThereAreCards) {
  cards_.clear();
  EXPECT_EQ(choose(IsolationMode::kAuto), IsolationMode::kDriver);
}

TEST_F(IsolationTest, TheDriverNeedsTheCgroupsOfTheNode) {
  std::filesystem::create_directories(folder_.path("proc/1"));
  std::ofstream(folder_.path("proc/1/cgroup")) << "0::/../init.scope\n";
  choose(IsolationMode::kDriver);
  EXPECT_THAT(health(), Each(HasSubstr("the limits of the driver: ")));
}

TEST_F(IsolationTest, AutoIsNoneWhereNothingCanLimit) {
  old_driver();
  EXPECT_EQ(choose(IsolationMode::kAuto), IsolationMode::kNone);
  EXPECT_THAT(health(), Each(kHealthy));
}

TEST_F(IsolationTest, AutoAsksAnyCardWhereNoneIsHealthy) {
  for (CardFacts& card : cards_) card.health = "libcuda.so.1 is missing";
  driver_.set_scenario("card GPU-1\n");
  EXPECT_EQ(choose(IsolationMode::kAuto), IsolationMode::kDriver);
}

TEST_F(IsolationTest, AutoChecksEachCardThatAppearsLater) {
  cards_.pop_back();
  driver_.set_scenario(std::string(kTwoCards) + "fail nvmlDeviceSetMemoryLimits_v1 3 GPU-1\n");
  EXPECT_EQ(choose(IsolationMode::kAuto), IsolationMode::kDriver);
  EXPECT_THAT(health(), ElementsAre(kHealthy, HasSubstr("card GPU-1 failed")));
}

TEST_F(IsolationTest, NothingIsChosenBeforeTheCardsAreRead) {
  make(IsolationMode::kAuto);
  isolation_->prepare();
  EXPECT_EQ(isolation_->chosen(), IsolationMode::kAuto);
  EXPECT_THAT(health(), Each(kHealthy));
  EXPECT_THAT(driver_.limits(), IsEmpty());
}

}  // namespace
}  // namespace mgpu::plugin
