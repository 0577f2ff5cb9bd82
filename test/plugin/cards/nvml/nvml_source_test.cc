#include "plugin/cards/nvml/nvml_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>

#include "plugin/cards/limits.h"
#include "plugin/cards/nvml/nvml_card.h"
#include "test/plugin/cards/fake_driver.h"

namespace mgpu::plugin {
namespace {
using std::chrono::hours;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr char kTwo[] =
    "driver 580.95.05\nnvml 12.580.95.05\n"
    "card GPU-a minor=3 memory=32510 name=Tesla_V100\n"
    "card GPU-b minor=1 memory=81559\n";

// "GPU-a GPU-b(XID 79)", or the error.
std::string shown(const Result<FoundCards>& inventory) {
  if (!inventory) return inventory.error().message;
  std::string text;
  for (const FoundCard& card : inventory->cards) {
    text += (text.empty() ? "" : " ") + card.uuid.str();
    if (card.health != kHealthy) text += "(" + card.health + ")";
  }
  return text;
}

class NvmlSource : public testing::Test {
 protected:
  NvmlSource() {
    node_.set_scenario(kTwo);
    node_.add_cuda();
  }

  std::string read() { return shown(source_->read()); }
  // The result of the last of several reads.
  std::string read(int times) {
    for (int i = 1; i < times; ++i) (void)source_->read();
    return read();
  }
  // Adds lines to the scenario of two good cards.
  void set_scenario(const std::string& more) const { node_.set_scenario(kTwo + more); }

  const FakeDriver node_;
  std::unique_ptr<CardSource> source_ = nvml_source(node_.options());
};

TEST_F(NvmlSource, FindsCardsWithTheirNodes) {
  const auto inventory = source_->read();
  ASSERT_TRUE(inventory) << inventory.error().message;
  ASSERT_THAT(inventory->cards, SizeIs(2));
  const FoundCard& card = inventory->cards[0];
  EXPECT_EQ(card.uuid, CardUuid("GPU-a"));
  EXPECT_EQ(card.model, "Tesla V100");
  EXPECT_EQ(card.memory, MiB(32510));
  EXPECT_EQ(card.health, kHealthy);
  EXPECT_EQ(card.index, std::nullopt);
  EXPECT_THAT(card.nodes, ElementsAre(DeviceNode{"/dev/nvidia3", "/dev/nvidia3"}));
  EXPECT_EQ(inventory->cards[1].memory, MiB(81559));
  EXPECT_EQ(source_->description(), "NVML 12.580.95.05 (driver 580.95.05)");
}

TEST_F(NvmlSource, ReturnsTheSharedEdits) {
  const auto inventory = source_->read();
  ASSERT_TRUE(inventory);
  EXPECT_THAT(inventory->shared.devices,
              ElementsAre(DeviceNode{"/dev/nvidiactl", "/dev/nvidiactl"},
                          DeviceNode{"/dev/nvidia-uvm", "/dev/nvidia-uvm"}));
  EXPECT_THAT(inventory->shared.mounts, SizeIs(4));
}

TEST_F(NvmlSource, TakesLibrariesOfTheVersionOfTheDriver) {
  node_.add_file("/usr/lib64/libnvidia-encode.so.580.95.05");
  node_.add_file("/usr/lib64/libnvidia-encode.so.575.1");
  const auto inventory = source_->read();
  ASSERT_TRUE(inventory);
  EXPECT_THAT(inventory->shared.mounts, SizeIs(6));
}

TEST_F(NvmlSource, OffersNoCardWhileAContainerCouldNotRunCuda) {
  EXPECT_EQ(read(), "GPU-a GPU-b");
  for (const char* file : {"/usr/lib64/libcuda.so.1", "/dev/nvidia-uvm", "/dev/nvidiactl"}) {
    const std::string name = std::filesystem::path(file).filename();
    std::filesystem::remove(node_.root() + file);
    EXPECT_THAT(read(kMissingReads),
                testing::MatchesRegex("GPU-a\\(.*" + name + " is missing\\) GPU-b\\(.*\\)"));
    node_.add_file(file);
    EXPECT_EQ(read(), "GPU-a GPU-b") << "found without opening NVML again";
  }
  EXPECT_THAT(node_.log(), testing::Not(HasSubstr("shutdown")));
}

TEST_F(NvmlSource, KeepsTheFilesWhileAPackageReplacesThem) {
  const auto before = source_->read();
  ASSERT_TRUE(before);
  std::filesystem::remove(node_.root() + "/usr/lib64/libcuda.so.1");
  for (int i = 1; i < kMissingReads; ++i) {
    const auto now = source_->read();
    ASSERT_TRUE(now);
    EXPECT_EQ(*now, *before);
  }
  EXPECT_THAT(read(), HasSubstr("libcuda.so.1 is missing"));
}

TEST_F(NvmlSource, OffersNoCardFromTheStartWithoutLibcuda) {
  std::filesystem::remove(node_.root() + "/usr/lib64/libcuda.so.1");
  EXPECT_EQ(read(), "GPU-a(libcuda.so.1 is missing) GPU-b(libcuda.so.1 is missing)");
}

TEST_F(NvmlSource, MayOfferCardsWithoutTheFiles) {
  std::filesystem::remove(node_.root() + "/usr/lib64/libcuda.so.1");
  NvmlOptions options = node_.options();
  options.must_run_cuda = false;
  EXPECT_EQ(shown(nvml_source(options)->read()), "GPU-a GPU-b");
}

TEST_F(NvmlSource, FindsDeviceNodesOfADriverContainer) {
  NvmlOptions options = node_.options();
  options.driver_root = "/run/nvidia/driver";
  node_.add_file("/run/nvidia/driver/dev/nvidia3");
  const auto inventory = nvml_source(options)->read();
  ASSERT_TRUE(inventory);
  EXPECT_THAT(inventory->cards[0].nodes,
              ElementsAre(DeviceNode{"/dev/nvidia3", "/run/nvidia/driver/dev/nvidia3"}));
  EXPECT_THAT(inventory->cards[1].nodes, ElementsAre(DeviceNode{"/dev/nvidia1", "/dev/nvidia1"}));
}

TEST_F(NvmlSource, ListsMigCardsAndDoesNotOfferThem) {
  node_.set_scenario("card GPU-a mig=1\ncard GPU-b pending=1\ncard GPU-c\n");
  const std::string none = "(MIG is on or pending, and the card has no MIG devices)";
  EXPECT_EQ(read(), "GPU-a" + none + " GPU-b" + none + " GPU-c");
}

// Two MIG devices of a card beside a card without MIG.
class NvmlInstances : public NvmlSource {
 protected:
  NvmlInstances() {
    node_.set_scenario(kScenario);
    node_.add_file("/proc/driver/nvidia-caps/mig-minors",
                   "config 1\nmonitor 2\ngpu2/gi1/access 30\ngpu2/gi1/ci0/access 31\n"
                   "gpu2/gi9/access 102\ngpu2/gi9/ci0/access x\ngpu2/gi9/ci0/access 103\n");
    for (const char* const cap : {"30", "31", "102", "103"})
      node_.add_file(std::string("/dev/nvidia-caps/nvidia-cap") + cap);
    for (const char* const minor : {"0", "2"}) node_.add_file(std::string("/dev/nvidia") + minor);
  }

  static constexpr char kScenario[] =
      "card GPU-a minor=2 memory=40960 mig=1 name=NVIDIA_A100-SXM4-40GB\ncard GPU-b minor=0\n"
      "instance MIG-1 of=GPU-a gi=1 ci=0 memory=19968 name=NVIDIA_A100-SXM4-40GB_MIG_3g.20gb\n"
      "instance MIG-2 of=GPU-a gi=9 ci=0 memory=4864 name=NVIDIA_A100-SXM4-40GB_MIG_1g.5gb\n";
};

TEST_F(NvmlInstances, AreCardsWithTheirMemoryAndDeviceFiles) {
  const auto found = source_->read();
  EXPECT_EQ(shown(found), "GPU-a(MIG) GPU-b MIG-1 MIG-2");
  const FoundCard& card = found->cards[2];
  EXPECT_EQ(card.model, "NVIDIA A100-SXM4-40GB MIG 3g.20gb");
  EXPECT_EQ(card.memory, MiB(19968));
  EXPECT_THAT(
      card.nodes,
      ElementsAre(DeviceNode{"/dev/nvidia2", "/dev/nvidia2"},
                  DeviceNode{"/dev/nvidia-caps/nvidia-cap30", "/dev/nvidia-caps/nvidia-cap30"},
                  DeviceNode{"/dev/nvidia-caps/nvidia-cap31", "/dev/nvidia-caps/nvidia-cap31"}));
  EXPECT_EQ(found->cards[3].nodes.at(2).path, "/dev/nvidia-caps/nvidia-cap103");
  EXPECT_EQ(found->cards[3].compute_capability, (ComputeCapability{9, 0}));
}

TEST_F(NvmlInstances, AreOfferedWhileTheirCardIsHealthy) {
  (void)source_->read();
  node_.send_events("GPU-a 8 79\n");
  source_->wait_for_change(hours(1));
  EXPECT_EQ(read(), "GPU-a(MIG) GPU-b MIG-1(XID 79) MIG-2(XID 79)");
}

TEST_F(NvmlInstances, AreNotOfferedWithoutTheirDeviceFiles) {
  std::filesystem::remove(node_.root() + "/dev/nvidia-caps/nvidia-cap31");
  EXPECT_EQ(read(), "GPU-a(MIG) GPU-b MIG-1(has no device nodes in /dev/nvidia-caps) MIG-2");
  node_.add_file("/proc/driver/nvidia-caps/mig-minors", "gpu2\n gpu2/gi1/access 30\n");
  EXPECT_EQ(read(),
            "GPU-a(MIG) GPU-b MIG-1(has no device nodes in /dev/nvidia-caps) "
            "MIG-2(has no device nodes in /dev/nvidia-caps)");
}

// Both report all of it.
TEST_F(NvmlInstances, AreNotOfferedIfTheyShareTheirMemory) {
  node_.add_file("/proc/driver/nvidia-caps/mig-minors",
                 "gpu2/gi1/access 30\ngpu2/gi1/ci0/access 31\ngpu2/gi1/ci1/access 102\n"
                 "gpu2/gi9/access 103\ngpu2/gi9/ci0/access 103\n");
  node_.set_scenario(std::string(kScenario) +
                     "instance MIG-3 of=GPU-a gi=1 ci=1 memory=19968 name=A100_MIG_1c.3g.20gb\n");
  const std::string why = "(shares the memory of its GPU instance with another MIG device)";
  EXPECT_EQ(read(), "GPU-a(MIG) GPU-b MIG-1" + why + " MIG-2 MIG-3" + why);
  node_.set_scenario(kScenario);
  EXPECT_EQ(read(), "GPU-a(MIG) GPU-b MIG-1 MIG-2");
}

// The same name is that of another device after the partition has changed.
TEST_F(NvmlInstances, AreNotOfferedByDriversBeforeR470) {
  node_.set_scenario(
      "card GPU-a minor=2 memory=40960 mig=1\ncard GPU-b minor=0\n"
      "instance MIG-GPU-a/1/0 of=GPU-a gi=1 ci=0 memory=19968\n");
  EXPECT_EQ(read(),
            "GPU-a(has MIG devices without UUIDs of their own, as with drivers before R470) GPU-b");
}

TEST_F(NvmlInstances, MayVanishAndChange) {
  (void)source_->read();
  node_.set_scenario(
      "card GPU-a minor=2 memory=40960 mig=1\ncard GPU-b minor=0\n"
      "instance MIG-2 of=GPU-a gi=9 ci=0 memory=4864\n"
      "fail nvmlDeviceGetMemoryInfo 15 MIG-2\n");
  EXPECT_EQ(read(), "GPU-a(MIG) GPU-b MIG-2(no response: GPU is lost (15))");
  node_.set_scenario("card GPU-a minor=2\ncard GPU-b minor=0\n");
  EXPECT_EQ(read(), "GPU-a GPU-b");
  EXPECT_EQ(node_.log(), "init register GPU-a register GPU-b");
}

TEST_F(NvmlInstances, StayWhileTheirCardDoesNotRespond) {
  (void)source_->read();
  node_.set_scenario(std::string(kScenario) + "fail nvmlDeviceGetMemoryInfo 999 GPU-a\n");
  EXPECT_THAT(read(), HasSubstr("MIG-1(no response: Other (999)) MIG-2(no response: Other (999))"));
  EXPECT_THAT(source_->use(), SizeIs(1));
  node_.set_scenario(kScenario);
  EXPECT_EQ(read(kGoodProbes), "GPU-a(MIG) GPU-b MIG-1 MIG-2");
}

TEST_F(NvmlInstances, NeedNoRightToTheMemoryOfTheirCard) {
  node_.set_scenario(std::string(kScenario) + "fail nvmlDeviceGetMemoryInfo 4 GPU-a\n");
  EXPECT_EQ(read(), "GPU-a(MIG) GPU-b MIG-1 MIG-2");
}

TEST_F(NvmlInstances, AreNoneOfTheCardsThatCannotBeRead) {
  (void)source_->read();
  node_.set_scenario(
      "card GPU-a minor=2 mig=1\ncard GPU-b minor=0\ncard GPU-c\n"
      "fail nvmlDeviceGetUUID 999 GPU-c\n");
  EXPECT_THAT(read(), HasSubstr("NVML-2(cannot be read: it has no UUID)"));
}

TEST_F(NvmlInstances, HaveTheUseOfTheirProcesses) {
  node_.set_scenario(std::string(kScenario) +
                     "process GPU-a compute 7 1048576\nprocess MIG-2 compute 7 1048576\n");
  (void)source_->read();
  const auto use = source_->use();
  ASSERT_THAT(use, SizeIs(3));  // not of the card, on which nobody has a share
  EXPECT_EQ(use[2].uuid, CardUuid("MIG-2"));
  EXPECT_THAT(use[2].processes, ElementsAre(ProcessUse{7, MiB(1), {}, true}));
}

TEST_F(NvmlSource, ReportsThatThereIsNoNvmlAndTriesAgain) {
  NvmlOptions options = node_.options();
  const std::string late = node_.root() + "/late.so";
  options.libraries = {late};
  const auto source = nvml_source(options);
  EXPECT_THAT(shown(source->read()), StartsWith("no NVML on this node"));
  EXPECT_EQ(source->description(), "NVML (not loaded)");
  EXPECT_THAT(source->use(), IsEmpty());
  std::filesystem::copy(beside_the_test("fake_nvml.so"), late);
  EXPECT_EQ(shown(source->read()), "GPU-a GPU-b");
}

TEST_F(NvmlSource, ReportsThatNvmlDoesNotStartAndTriesAgain) {
  set_scenario("fail nvmlInit_v2 9\n");
  EXPECT_THAT(read(), HasSubstr("nvmlInit_v2 failed: Driver Not Loaded (9); is the nvidia kernel "
                                "module loaded"));
  set_scenario("");
  EXPECT_EQ(read(), "GPU-a GPU-b");
}

TEST_F(NvmlSource, ReopensNvmlAfterTheDriverWasRestarted) {
  EXPECT_EQ(read(), "GPU-a GPU-b");
  set_scenario("fail nvmlDeviceGetCount_v2 18\n");
  EXPECT_THAT(read(), HasSubstr("different drivers"));
  set_scenario("");
  EXPECT_EQ(read(), "GPU-a GPU-b");
  EXPECT_THAT(node_.log(), HasSubstr("shutdown init"));
}

TEST_F(NvmlSource, LosesOneCardAndKeepsTheOthers) {
  EXPECT_EQ(read(), "GPU-a GPU-b");
  set_scenario("fail nvmlDeviceGetMemoryInfo 15 GPU-b\nfail nvmlDeviceGetUUID 15 GPU-b\n");
  EXPECT_EQ(read(), "GPU-a GPU-b(fell off the bus)");
  set_scenario("fail nvmlDeviceGetHandleByIndex_v2 15 GPU-b\n");
  EXPECT_EQ(read(), "GPU-a");
  set_scenario("");
  EXPECT_EQ(read(kGoodProbes), "GPU-a GPU-b");
}

TEST_F(NvmlSource, KeepsTheFactsOfACardThatDoesNotRespond) {
  ASSERT_TRUE(source_->read());
  set_scenario("fail nvmlDeviceGetMemoryInfo 15 GPU-b\n");
  const auto inventory = source_->read();
  ASSERT_TRUE(inventory);
  EXPECT_EQ(inventory->cards[1].memory, MiB(81559));
  EXPECT_THAT(inventory->cards[1].nodes, ElementsAre(DeviceNode{"/dev/nvidia1", "/dev/nvidia1"}));
}

TEST_F(NvmlSource, ReopensNvmlWhenACardStaysMissing) {
  ASSERT_TRUE(source_->read());
  set_scenario("fail nvmlDeviceGetHandleByIndex_v2 15 GPU-b\n");
  EXPECT_EQ(read(kNvmlReopenReads), "GPU-a");
  EXPECT_THAT(node_.log(), testing::EndsWith("shutdown"));
  EXPECT_EQ(read(), "GPU-a");
  EXPECT_THAT(node_.log(), HasSubstr("shutdown init"));
}

// Each time, the other cards are started again, and their XIDs are not reported meanwhile.
TEST_F(NvmlSource, ReopensNvmlLessAndLessOftenForACardThatStaysMissing) {
  ASSERT_TRUE(source_->read());
  set_scenario("fail nvmlDeviceGetHandleByIndex_v2 15 GPU-b\n");
  const auto shutdowns = [this] {
    const std::string log = node_.log();
    int count = 0;
    for (std::size_t at = log.find("shutdown"); at != log.npos; at = log.find("shutdown", at + 1))
      ++count;
    return count;
  };
  for (const int reads : {kNvmlReopenReads, 2 * kNvmlReopenReads, 4 * kNvmlReopenReads,
                          8 * kNvmlReopenReads, kNvmlReopenReadsMax, kNvmlReopenReadsMax}) {
    const int before = shutdowns();
    (void)read(reads - 1);
    ASSERT_EQ(shutdowns(), before) << reads;
    (void)read();
    ASSERT_EQ(shutdowns(), before + 1) << reads;
  }
  set_scenario("");
  (void)read();
  set_scenario("fail nvmlDeviceGetHandleByIndex_v2 15 GPU-b\n");
  const int before = shutdowns();
  (void)read(kNvmlReopenReads);
  EXPECT_EQ(shutdowns(), before + 1);
}

TEST_F(NvmlSource, ReopensNvmlWhenTheKernelFindsAnotherCard) {
  node_.add_file("/proc/driver/nvidia/gpus/0000:01:00.0/information");
  ASSERT_TRUE(source_->read());
  ASSERT_TRUE(source_->read());
  EXPECT_THAT(node_.log(), testing::Not(HasSubstr("shutdown")));
  node_.add_file("/proc/driver/nvidia/gpus/0000:02:00.0/information");
  ASSERT_TRUE(source_->read());
  EXPECT_EQ(read(), "GPU-a GPU-b");
  EXPECT_THAT(node_.log(), HasSubstr("shutdown init"));
}

// For an upgrade of the driver, a reset of a card, or a change of its MIG mode.
TEST_F(NvmlSource, ReleasesTheDriverUntilTheNextRead) {
  ASSERT_TRUE(source_->read());
  source_->release();
  EXPECT_THAT(node_.log(), testing::EndsWith("shutdown"));
  EXPECT_THAT(source_->use(), IsEmpty());
  source_->wait_for_change(milliseconds(1));
  source_->release();
  EXPECT_THAT(node_.log(), testing::EndsWith("shutdown"));
  EXPECT_EQ(read(), "GPU-a GPU-b");
}

TEST_F(NvmlSource, NeedsANewProcessAfterSeveralMismatchesOfAReplacedDriver) {
  ASSERT_TRUE(source_->read());
  source_->release();
  set_scenario("fail nvmlInit_v2 18\n");
  for (int i = 0; i < kMismatchesMax; ++i) {
    EXPECT_EQ(source_->needs_restart(), "");
    EXPECT_THAT(read(), HasSubstr("different drivers"));
  }
  EXPECT_THAT(source_->needs_restart(),
              StartsWith("the driver was replaced since NVML was opened"));
  set_scenario("");
  EXPECT_EQ(read(), "GPU-a GPU-b");
  EXPECT_EQ(source_->needs_restart(), "");
}

// Another process would find the same library.
TEST_F(NvmlSource, NeedsNoNewProcessWhereOnlyTheFilesOfTheDriverWereReplaced) {
  node_.add_file("/proc/driver/nvidia/version",
                 "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23\n");
  ASSERT_TRUE(source_->read());
  source_->release();
  set_scenario("fail nvmlInit_v2 18\n");
  for (int i = 0; i <= kMismatchesMax; ++i) EXPECT_THAT(read(), HasSubstr("different drivers"));
  EXPECT_EQ(source_->needs_restart(), "");
  node_.add_file("/proc/driver/nvidia/version",
                 "NVRM version: NVIDIA UNIX x86_64 Kernel Module  590.48.01  Tue Sep 23\n");
  EXPECT_THAT(read(), HasSubstr("different drivers"));
  EXPECT_NE(source_->needs_restart(), "");
}

// Another process would find the same library.
TEST_F(NvmlSource, NeedsNoNewProcessWhereNvmlWasNeverOpen) {
  set_scenario("fail nvmlInit_v2 18\n");
  for (int i = 0; i <= kMismatchesMax; ++i) EXPECT_THAT(read(), HasSubstr("different drivers"));
  EXPECT_EQ(source_->needs_restart(), "");
}

TEST_F(NvmlSource, ReportsACardThatItHasNeverRead) {
  set_scenario("fail nvmlDeviceGetUUID 999 GPU-a\n");
  EXPECT_EQ(read(), "GPU-b NVML-0(cannot be read: it has no UUID)");
  set_scenario("fail nvmlDeviceGetHandleByIndex_v2 15 GPU-a\n");
  EXPECT_THAT(read(), StartsWith("GPU-b NVML-0(cannot be read: "));
  set_scenario("");
  EXPECT_EQ(read(), "GPU-a GPU-b");
  // It is known as lost from now on.
  set_scenario("fail nvmlDeviceGetHandleByIndex_v2 15 GPU-a\n");
  EXPECT_EQ(read(), "GPU-b");
}

TEST_F(NvmlSource, KnowsTheWindowsSubsystemForLinux) {
  set_scenario("fail nvmlDeviceGetMinorNumber 3 GPU-a\nfail nvmlDeviceGetMinorNumber 3 GPU-b\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(read(), "GPU-a(has no device node) GPU-b(has no device node)");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::Not(HasSubstr("modprobe")));
}

TEST_F(NvmlSource, DoesNotOfferACardWithoutADeviceNode) {
  set_scenario("fail nvmlDeviceGetMinorNumber 999 GPU-a\n");
  EXPECT_EQ(read(), "GPU-a(has no device node) GPU-b");
}

TEST_F(NvmlSource, ReportsTheRecoveryActionOfTheDriver) {
  node_.set_scenario("card GPU-a action=1\n");
  EXPECT_EQ(read(), "GPU-a(needs a reset)");
  node_.set_scenario("card GPU-a action=0\n");
  EXPECT_EQ(read(2), "GPU-a(needs a reset)");
  EXPECT_EQ(read(), "GPU-a");
  node_.set_scenario("card GPU-a remap_failed=1\n");
  EXPECT_EQ(read(), "GPU-a(row remapping failed)");
}

TEST_F(NvmlSource, DoesNotOfferACardOnWhichCudaCannotStart) {
  node_.set_scenario("card GPU-a fabric=1\ncard GPU-b fabric=2\ncard GPU-c fabric=3\n");
  EXPECT_THAT(read(), AllOf(StartsWith("GPU-a GPU-b(waits for the NVLink fabric"),
                            HasSubstr("nvidia-fabricmanager"), EndsWith(") GPU-c")));
  node_.set_scenario("card GPU-a\ncard GPU-b fabric=3\ncard GPU-c fabric=3 fabric_status=999\n");
  EXPECT_EQ(read(kGoodProbes), "GPU-a GPU-b GPU-c(the NVLink fabric failed: Other (999))");
  node_.set_scenario("card GPU-d\nconfidential 0\n");
  EXPECT_THAT(read(), HasSubstr("GPU-d(does not accept work yet (confidential computing))"));
  node_.set_scenario("card GPU-d\nconfidential 1\n");
  EXPECT_THAT(read(kGoodProbes), HasSubstr("GPU-d"));
  EXPECT_THAT(read(), Not(HasSubstr("confidential")));
}

TEST_F(NvmlSource, DoesNotOfferACardForDisplays) {
  node_.set_scenario("card GPU-a\ncard GPU-b name=NVIDIA_DGX_Display memory=4096\n");
  EXPECT_EQ(read(), "GPU-a GPU-b(is for displays only)");
}

TEST_F(NvmlSource, OffersACardWithoutMemoryOfItsOwn) {
  const std::string gb10 =
      "card GPU-a name=NVIDIA_GB10\ncard GPU-b memory=81920\nfail nvmlDeviceGetMemoryInfo 3 GPU-a\n"
      "fail nvmlDeviceGetMemoryInfo_v2 3 GPU-a\n";
  node_.set_scenario(gb10);
  EXPECT_EQ(read(), "GPU-a GPU-b");
  EXPECT_EQ(source_->read()->cards[0].memory, kNoMemoryOfItsOwn);

  NvmlOptions options = node_.options();
  options.unified_memory = MiB(100'000);
  options.reserve = MiB(512);  // of the driver's, which this memory has none of
  source_ = nvml_source(options);
  EXPECT_EQ(source_->read()->cards[0].memory, MiB(100'000));
  EXPECT_LT(source_->read()->cards[1].memory, MiB(81'920));
}

TEST_F(NvmlSource, WorksWithoutEventsOnAnOldDriver) {
  source_ = nvml_source(node_.options("fake_nvml_old.so"));
  EXPECT_EQ(read(), "GPU-a GPU-b");
  EXPECT_EQ(source_->read()->cards[0].model, "NVIDIA GPU");
  EXPECT_EQ(source_->description(), "NVML of an unknown version (driver of an unknown version)");
  source_->wait_for_change(milliseconds(1));
  source_->interrupt();
  source_->wait_for_change(hours(1));
}

TEST_F(NvmlSource, ReadsTheComputeCapability) {
  node_.set_scenario("card GPU-a capability=86\n");
  EXPECT_EQ(source_->read()->cards[0].compute_capability, (ComputeCapability{8, 6}));
  set_scenario("fail nvmlDeviceGetCudaComputeCapability 999\n");
  source_ = nvml_source(node_.options());
  EXPECT_EQ(source_->read()->cards[0].compute_capability, std::nullopt);
}

// From R510 on NVML's total includes what the driver reserves.
TEST_F(NvmlSource, OffersTheMemoryThatProgramsCanAllocate) {
  const auto memory = [this] { return source_->read()->cards[0].memory; };
  node_.set_scenario("card GPU-a memory=81920 reserved=600\n");
  EXPECT_EQ(memory(), MiB(81'320));
  node_.set_scenario("card GPU-a memory=81920 reserved=610\n");
  EXPECT_EQ(memory(), MiB(81'310));
  node_.set_scenario("card GPU-a memory=81920 reserved=590\n");
  EXPECT_EQ(memory(), MiB(81'310)) << "the capacity of the node does not change each time";
}

TEST_F(NvmlSource, OffersTheTotalOfADriverThatDoesNotReport) {
  node_.set_scenario("card GPU-a memory=81920 reserved=600\n");
  source_ = nvml_source(node_.options("fake_nvml_old.so"));
  EXPECT_EQ(source_->read()->cards[0].memory, MiB(81'920));
}

TEST_F(NvmlSource, KeepsAReserveOfEachCard) {
  node_.set_scenario("card GPU-a memory=81920 reserved=600\n");
  NvmlOptions options = node_.options();
  options.must_run_cuda = false;
  options.reserve = MiB(512);
  source_ = nvml_source(options);
  EXPECT_EQ(source_->read()->cards[0].memory, MiB(80'808));
}

// --- XIDs ----------------------------------------------------------------------------------------

TEST_F(NvmlSource, EndsAWaitForAnXidThatMakesTheCardUnhealthy) {
  ASSERT_TRUE(source_->read());
  node_.send_events("GPU-b 8 69\n");
  source_->wait_for_change(hours(1));
  EXPECT_EQ(read(), "GPU-a GPU-b(XID 69)");
  EXPECT_EQ(read(kGoodProbes - 1), "GPU-a GPU-b");
}

TEST_F(NvmlSource, IgnoresXidsCausedByPrograms) {
  ASSERT_TRUE(source_->read());
  node_.send_events("GPU-b 8 31\nGPU-b 8 43\n");
  source_->wait_for_change(2 * kXidWait);
  EXPECT_EQ(read(), "GPU-a GPU-b");
  node_.send_events("GPU-b 8 31\nGPU-a 8 48\nGPU-z 8 79\nGPU-b 32768 0\n");
  source_->wait_for_change(hours(1));
  EXPECT_EQ(read(), "GPU-a(XID 48) GPU-b");
}

TEST_F(NvmlSource, RegistersTheEventsOfEachCardOnce) {
  (void)read(3);
  EXPECT_EQ(node_.log(), "init register GPU-a register GPU-b");
}

TEST_F(NvmlSource, ProbesWhenItCannotWaitAndRegistersEventsAgainLater) {
  ASSERT_TRUE(source_->read());
  set_scenario("fail nvmlEventSetWait_v2 999\n");
  source_->wait_for_change(hours(1));
  source_->wait_for_change(milliseconds(1));
  set_scenario("");
  (void)read(kNvmlReopenReads);
  node_.send_events("GPU-b 8 79\n");
  source_->wait_for_change(hours(1));
  EXPECT_EQ(read(), "GPU-a GPU-b(XID 79)");
}

// A card that dies may end the wait for the events of all.
TEST_F(NvmlSource, RegistersEventsAtTheNextReadAfterOneFailedWait) {
  ASSERT_TRUE(source_->read());
  set_scenario("fail nvmlEventSetWait_v2 15\n");
  source_->wait_for_change(hours(1));
  set_scenario("");
  ASSERT_TRUE(source_->read());
  node_.send_events("GPU-b 8 79\n");
  source_->wait_for_change(hours(1));
  EXPECT_EQ(read(), "GPU-a GPU-b(XID 79)");
}

TEST_F(NvmlSource, ProbesCardsWithoutEvents) {
  node_.set_scenario("card GPU-a events=0\n");
  ASSERT_TRUE(source_->read());
  source_->wait_for_change(milliseconds(1));
  EXPECT_EQ(read(), "GPU-a");
  EXPECT_THAT(node_.log(), testing::Not(HasSubstr("shutdown")));
}

TEST_F(NvmlSource, EndsAWaitWhenInterrupted) {
  ASSERT_TRUE(source_->read());
  source_->interrupt();
  source_->wait_for_change(hours(1));
  std::thread other([&] { source_->interrupt(); });
  source_->wait_for_change(hours(1));
  other.join();
}

// --- a driver that hangs -------------------------------------------------------------------------

TEST_F(NvmlSource, MarksACardThatHangsUntilItResponds) {
  NvmlOptions options = node_.options();
  options.timeout = milliseconds(200);
  source_ = nvml_source(options);
  while (read() != "GPU-a GPU-b") continue;
  set_scenario("hang nvmlDeviceGetName GPU-b\n");
  // On a busy machine the other card may take too long before.
  for (int twice = 0; twice < 2; ++twice) {
    while (read() != "GPU-a GPU-b(the driver does not respond)") continue;
  }
  EXPECT_THAT(source_->use(), IsEmpty());
  source_->wait_for_change(milliseconds(1));
  source_->interrupt();
  source_->wait_for_change(hours(1));
  set_scenario("");
  source_->wait_for_change(hours(1));
  while (read() != "GPU-a GPU-b") continue;
}

TEST_F(NvmlSource, ReportsADriverThatHangsAtTheFirstRead) {
  NvmlOptions options = node_.options();
  options.timeout = milliseconds(10);
  set_scenario("hang nvmlInit_v2\n");
  source_ = nvml_source(options);
  EXPECT_EQ(read(), "the NVIDIA driver does not respond to NVML");
  EXPECT_EQ(source_->description(), "NVML (not loaded)");
  set_scenario("");
}

// --- use -----------------------------------------------------------------------------------------

class NvmlUse : public NvmlSource {
 protected:
  // The use of the card "GPU-a".
  CardUse use_when(const std::string& more,
                   const std::string& card = "card GPU-a used=1000 gpu=55\n",
                   const std::string& library = "fake_nvml.so") {
    node_.set_scenario(card + more);
    source_ = nvml_source(node_.options(library));
    (void)source_->read();
    const auto all = source_->use();
    return all.empty() ? CardUse() : all[0];
  }
};

TEST_F(NvmlUse, ReportsTheUseOfTheWholeCard) {
  const CardUse use = use_when("");
  EXPECT_EQ(use.uuid, CardUuid("GPU-a"));
  EXPECT_EQ(use.memory_used, MiB(1000));
  EXPECT_EQ(use.sm_percent, 55);
  EXPECT_THAT(use.processes, IsEmpty());
}

TEST_F(NvmlUse, JoinsTheListsByProcess) {
  const CardUse use = use_when(
      "process GPU-a compute 7 1048576\nprocess GPU-a mps 7 3145728\nprocess GPU-a graphics 8 0\n"
      "process GPU-a compute 9 18446744073709551615\nprocess GPU-b compute 5 1048576\n");
  EXPECT_THAT(use.processes, ElementsAre(ProcessUse{7, MiB(3), {}, false, true},
                                         ProcessUse{8, MiB(0), {}}, ProcessUse{9, {}, {}, true}));
}

// Their lists "_v3" have entries of 32 bytes.
TEST_F(NvmlUse, ReadsTheListsOfTheDrivers535_43To535_86) {
  std::string many = "driver 535.54.03\n";
  for (int pid = 1; pid <= 60; ++pid) {
    many += "process GPU-a compute " + std::to_string(pid) + " 1048576\n";
  }
  const CardUse use = use_when(many + "process GPU-a mps 60 1048576\n");
  ASSERT_THAT(use.processes, SizeIs(60));
  EXPECT_EQ(use.processes[58], (ProcessUse{59, MiB(1), {}, true}));
  EXPECT_EQ(use.processes[59], (ProcessUse{60, MiB(1), {}, false, true}));
}

TEST_F(NvmlUse, DoesNotSayWhoIsWithoutMpsIfTheDriverDoesNotListItsClients) {
  const CardUse use = use_when(
      "process GPU-a compute 7 1048576\nfail nvmlDeviceGetMPSComputeRunningProcesses_v2 999\n");
  EXPECT_THAT(use.processes, ElementsAre(ProcessUse{7, MiB(1), {}, false}));
}

TEST_F(NvmlUse, TakesTheNewestUsableSampleOfAProcess) {
  const CardUse use = use_when(
      "process GPU-a compute 7 1048576\n"
      "sample GPU-a 7 9000000 10\nsample GPU-a 7 9500000 40\nsample GPU-a 7 9400000 20\n"
      "sample GPU-a 8 9500000 5\n"                // not in a list
      "sample GPU-a 7 9600000 4294967295\n"       // the driver has none
      "sample GPU-a 7 18446744073709551615 90\n"  // of a time that is not known yet
      "sample GPU-a 0 9500000 50\n"               // of no process
      "sample GPU-a 6 1000000 99\n");             // of a process that ended long ago
  EXPECT_THAT(use.processes, ElementsAre(ProcessUse{7, MiB(1), 40, true}, ProcessUse{8, {}, 5}));
}

TEST_F(NvmlUse, TakesNoSampleTwice) {
  (void)use_when("process GPU-a compute 7 1048576\nsample GPU-a 7 9000000 10\n");
  EXPECT_THAT(source_->use().at(0).processes, ElementsAre(ProcessUse{7, MiB(1), {}, true}));
}

// The driver lists no process that has not used the card.
TEST_F(NvmlUse, SaysWhetherAProcessWithoutASampleWasIdle) {
  const std::string process = "process GPU-a compute 7 1048576\n";
  const std::string failing = "fail nvmlDeviceGetProcessUtilization 3\n";
  EXPECT_TRUE(use_when(process).measured) << "no process has a sample";
  EXPECT_TRUE(use_when(process + "sample GPU-a 8 9000000 10\n").measured);
  EXPECT_FALSE(use_when(process + failing).measured) << "the driver measures no processes";
  EXPECT_FALSE(use_when(process, "card GPU-a used=1000\n", "fake_nvml_old.so").measured);
}

// NVIDIA's tools attribute the use of clients of MPS to their server.
TEST_F(NvmlUse, AClientOfMpsWithoutASampleMayBeBusyWhileTheCardIs) {
  const std::string idle = "card GPU-a used=1000 gpu=0\n";
  const std::string busy = "card GPU-a used=1000 gpu=1\n";
  const std::string program = "process GPU-a compute 7 1048576\n";
  const std::string client = "process GPU-a mps 8 1048576\n";
  const std::string server = "sample GPU-a 9 9000000 1\n";
  EXPECT_TRUE(use_when(program + server, busy).clients_measured) << "there is no client";
  EXPECT_TRUE(use_when(program + client, idle).clients_measured);
  EXPECT_FALSE(use_when(client, busy).clients_measured);
  EXPECT_FALSE(use_when(client + server, idle).clients_measured) << "the server has computed";
  EXPECT_FALSE(use_when(client + "fail nvmlDeviceGetUtilizationRates 3\n", idle).clients_measured)
      << "nobody knows";
}

TEST_F(NvmlUse, AProcessWithoutANewSampleSoonAfterTheLastMayBeBusy) {
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  const auto in_half_a_minute = std::to_string(now.count() + 30'000'000);
  const std::string sample = "sample GPU-a 7 " + in_half_a_minute + " 10\n";
  EXPECT_TRUE(use_when("process GPU-a compute 7 1048576\n" + sample).measured);
  EXPECT_FALSE(source_->use().at(0).measured);
}

// The time of samples is that of the wall clock.
TEST_F(NvmlUse, TakesNewSamplesAfterTheClockWentBack) {
  node_.set_scenario("card GPU-a used=1000\nsample GPU-a 7 9000000 10\n");
  const auto library = nvml::Library::open({beside_the_test("fake_nvml.so")});
  ASSERT_TRUE(library);
  nvml::Device device{};
  ASSERT_EQ((*library)->functions().init(), nvml::kOk);
  ASSERT_EQ((*library)->functions().device_by_index(0, &device), nvml::kOk);
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  auto seen_us = static_cast<std::uint64_t>(now.count()) + 3'600'000'000;
  const auto use = nvml::read_use(**library, device, CardUuid("GPU-a"), seen_us);
  ASSERT_TRUE(use);
  EXPECT_TRUE(use->measured);
  EXPECT_THAT(use->processes, ElementsAre(ProcessUse{7, {}, 10}));
  EXPECT_EQ(seen_us, 9'000'000U);
  EXPECT_EQ((*library)->functions().shutdown(), nvml::kOk);
}

TEST_F(NvmlUse, SaysWhetherTheDriverListsProcesses) {
  EXPECT_TRUE(use_when("").listed);
  EXPECT_TRUE(use_when("fail nvmlDeviceGetMPSComputeRunningProcesses_v2 999\n").listed);
  EXPECT_FALSE(use_when("fail nvmlDeviceGetComputeRunningProcesses_v2 3\n").listed);
}

TEST_F(NvmlUse, RetriesWithMoreRoom) {
  std::string many;
  for (int pid = 1; pid <= 300; ++pid) {
    many += "process GPU-a compute " + std::to_string(pid) + " 1048576\n";
    many += "sample GPU-a " + std::to_string(pid) + " 9000000 1\n";
  }
  const CardUse use = use_when(many);
  ASSERT_THAT(use.processes, SizeIs(300));
  EXPECT_EQ(use.processes.back(), (ProcessUse{300, MiB(1), 1, true}));
}

TEST_F(NvmlUse, ReadsTheLayoutOfAnOldDriver) {
  const CardUse use = use_when("process GPU-a compute 7 1048576\nprocess GPU-a compute 8 2097152\n",
                               "card GPU-a used=1000\n", "fake_nvml_old.so");
  EXPECT_EQ(use.memory_used, MiB(1400));  // including what the driver reserves
  EXPECT_EQ(use.sm_percent, std::nullopt);
  EXPECT_THAT(use.processes, ElementsAre(ProcessUse{7, MiB(1), {}}, ProcessUse{8, MiB(2), {}}));
}

TEST_F(NvmlUse, OfACardWithoutMemoryOfItsOwnIsThatOfItsProcesses) {
  const CardUse use = use_when(
      "process GPU-a compute 7 314572800\nfail nvmlDeviceGetMemoryInfo 3 GPU-a\n"
      "fail nvmlDeviceGetMemoryInfo_v2 3 GPU-a\n");
  EXPECT_EQ(use.memory_used, std::nullopt);
  EXPECT_EQ(use.sm_percent, 55);
  EXPECT_THAT(use.processes, ElementsAre(ProcessUse{7, MiB(300), {}, true}));
}

TEST_F(NvmlUse, LeavesOutACardThatDoesNotRespond) {
  node_.set_scenario("card GPU-a\ncard GPU-b\n");
  (void)source_->read();
  node_.set_scenario(
      "card GPU-a\ncard GPU-b\nfail nvmlDeviceGetMemoryInfo 15 GPU-a\n"
      "fail nvmlDeviceGetMemoryInfo_v2 15 GPU-a\n");
  const auto use = source_->use();
  ASSERT_THAT(use, SizeIs(1));
  EXPECT_EQ(use[0].uuid, CardUuid("GPU-b"));
}

}  // namespace
}  // namespace mgpu::plugin
