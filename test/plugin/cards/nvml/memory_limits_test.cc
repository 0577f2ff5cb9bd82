// The driver's memory limits of cgroups, with an NVML that has the functions of R615.
#include "plugin/cards/nvml/memory_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/plugin/cards/fake_driver.h"

namespace mgpu::plugin {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr char kTwoCards[] = "card GPU-0\ncard GPU-1\n";

std::string sentence(const Result<void>& result) {
  return result ? "" : result.error().message;
}

class MemoryLimitsTest : public testing::Test {
 public:
  MemoryLimitsTest() {
    driver_.set_scenario(kTwoCards);
    driver_.add_file("/sys/fs/cgroup/cgroup.controllers", "cpu memory dmem\n");
    driver_.add_file("/sys/fs/cgroup/pod/cgroup.procs");
  }

  MemoryLimits limits(const std::string& library = "fake_nvml_r615.so",
                      std::chrono::milliseconds timeout = std::chrono::hours(1)) const {
    NvmlCallOptions options;
    options.libraries = {beside_the_test(library)};
    options.node_root = driver_.root();
    options.timeout = timeout;
    return MemoryLimits(options);
  }
  std::string pod() const { return driver_.root() + "/sys/fs/cgroup/pod"; }
  // A line of the limits that the driver was given, without the folder of the test.
  std::string line(const std::string& card, const std::string& cgroup, const char* rest) const {
    return card + " " + driver_.root() + "/sys/fs/cgroup/" + cgroup + " " + rest;
  }

  FakeDriver driver_;
};

TEST_F(MemoryLimitsTest, SetsTheHardLimitOfEachCardInBytes) {
  const auto set =
      limits().set(pod(), {{CardUuid("GPU-1"), MiB(1'024)}, {CardUuid("GPU-0"), MiB(2)}});
  EXPECT_EQ(sentence(set), "");
  EXPECT_THAT(driver_.limits(),
              ElementsAre(line("GPU-1", "pod", "0 1073741824"), line("GPU-0", "pod", "0 2097152")));
}

// As a privileged container does, whose /host/sys/fs/cgroup NVML may not know.
TEST_F(MemoryLimitsTest, NamesTheCgroupsOfTheNodeAsThisProcessSeesThem) {
  const auto root_with = [this](const std::string& own) {
    NvmlCallOptions options;
    options.node_root = driver_.root();
    options.own_cgroup_root = driver_.root() + own;
    return MemoryLimits(options).cgroup_root();
  };
  const std::string of_node = driver_.root() + "/sys/fs/cgroup";
  EXPECT_EQ(root_with("/own"), of_node) << "there is none, or cgroup v1";
  driver_.add_file("/own/cgroup.controllers", "cpu memory dmem\n");
  EXPECT_EQ(root_with("/own"), driver_.root() + "/own");
  driver_.add_file("/own/cgroup.type", "domain\n");
  EXPECT_EQ(root_with("/own"), of_node) << "the root of a cgroup namespace";
}

TEST_F(MemoryLimitsTest, LeavesNvmlClosed) {
  EXPECT_EQ(sentence(limits().set(pod(), {{CardUuid("GPU-0"), MiB(1)}})), "");
  EXPECT_EQ(driver_.log(), "init shutdown");
}

TEST_F(MemoryLimitsTest, ALimitThatReadsBackDifferentlyIsAnError) {
  driver_.set_scenario(std::string(kTwoCards) + "readback GPU-0 18446744073709551615\n");
  EXPECT_EQ(sentence(limits().set(pod(), {{CardUuid("GPU-0"), MiB(1)}})),
            "the memory limit of card GPU-0 was set to 1048576 bytes, and is no limit");
}

TEST_F(MemoryLimitsTest, ErrorsNameTheFunctionAndTheCard) {
  driver_.set_scenario(std::string(kTwoCards) + "fail nvmlDeviceSetMemoryLimits_v1 4 GPU-0\n");
  EXPECT_EQ(sentence(limits().set(pod(), {{CardUuid("GPU-0"), MiB(1)}})),
            "nvmlDeviceSetMemoryLimits_v1 of card GPU-0 failed: Other (4)");
  driver_.set_scenario(std::string(kTwoCards) + "fail nvmlDeviceGetMemoryLimits_v1 3\n");
  EXPECT_EQ(sentence(limits().set(pod(), {{CardUuid("GPU-1"), MiB(1)}})),
            "nvmlDeviceGetMemoryLimits_v1 of card GPU-1 failed: Other (3)");
  EXPECT_EQ(sentence(limits().set(pod(), {{CardUuid("GPU-7"), MiB(1)}})), "NVML has no card GPU-7");
}

TEST_F(MemoryLimitsTest, ACgroupWithoutTheControllerOfTheDriverCannotBeLimited) {
  driver_.set_scenario(std::string(kTwoCards) + "fail nvmlDeviceSetMemoryLimits_v1 6\n");
  EXPECT_EQ(sentence(limits().set(pod(), {{CardUuid("GPU-0"), MiB(1)}})),
            "nvmlDeviceSetMemoryLimits_v1 of card GPU-0 failed: Other (6); the cgroup needs the "
            "kernel's dmem controller");
}

TEST_F(MemoryLimitsTest, ADriverBeforeR615IsAnError) {
  EXPECT_EQ(sentence(limits("fake_nvml.so").set(pod(), {{CardUuid("GPU-0"), MiB(1)}})),
            "the driver has no nvmlDeviceSetMemoryLimits_v1, which R615 and later have");
  EXPECT_THAT(sentence(limits("no_such.so").set(pod(), {})), HasSubstr("no NVML on this node"));
}

TEST_F(MemoryLimitsTest, ACallThatHangsIsAnErrorAndSoAreTheCallsAfterIt) {
  MemoryLimits limits = this->limits("fake_nvml_r615.so", std::chrono::milliseconds(50));
  driver_.set_scenario(std::string(kTwoCards) + "hang nvmlDeviceSetMemoryLimits_v1\n");
  const auto set = limits.set(pod(), {{CardUuid("GPU-0"), MiB(1)}});
  EXPECT_EQ(sentence(set), "the NVIDIA driver does not respond to NVML");
  EXPECT_EQ(sentence(limits.check(CardUuid("GPU-1"))),
            "the NVIDIA driver does not respond to NVML");
  driver_.set_scenario(kTwoCards);
}

TEST_F(MemoryLimitsTest, ClearRemovesTheLimits) {
  MemoryLimits limits = this->limits();
  ASSERT_EQ(sentence(limits.set(pod(), {{CardUuid("GPU-0"), MiB(1)}})), "");
  EXPECT_EQ(sentence(limits.clear(pod(), {CardUuid("GPU-0")})), "");
  EXPECT_EQ(driver_.limits().back(), line("GPU-0", "pod", "0 18446744073709551615"));
}

TEST_F(MemoryLimitsTest, ClearAcceptsARemovedCgroupAndALostCard) {
  EXPECT_EQ(sentence(limits().clear(pod() + "/gone", {CardUuid("GPU-0"), CardUuid("GPU-7")})), "");
}

TEST_F(MemoryLimitsTest, ClearTriesAllCardsAndReportsTheFirstError) {
  driver_.set_scenario(std::string(kTwoCards) + "fail nvmlDeviceSetMemoryLimits_v1 999 GPU-0\n");
  EXPECT_THAT(sentence(limits().clear(pod(), {CardUuid("GPU-0"), CardUuid("GPU-1")})),
              HasSubstr("card GPU-0 failed: Other (999)"));
  EXPECT_THAT(driver_.limits(), ElementsAre(StartsWith("GPU-1 ")));
}

// --- check ---------------------------------------------------------------------------------------

TEST_F(MemoryLimitsTest, CheckSetsALimitOfACgroupThatItRemoves) {
  EXPECT_EQ(sentence(limits().check(CardUuid("GPU-1"))), "");
  EXPECT_THAT(driver_.limits(),
              ElementsAre(line("GPU-1", "mgpu-limits-probe", "0 67108864"),
                          line("GPU-1", "mgpu-limits-probe", "0 18446744073709551615")));
  EXPECT_FALSE(std::filesystem::exists(driver_.root() + "/sys/fs/cgroup/mgpu-limits-probe"));
}

TEST_F(MemoryLimitsTest, CheckNeedsCgroupV2) {
  std::filesystem::remove(driver_.root() + "/sys/fs/cgroup/cgroup.controllers");
  EXPECT_THAT(sentence(limits().check(CardUuid("GPU-1"))),
              AllOf(StartsWith("the limits of the driver need cgroup v2 in "),
                    testing::EndsWith("/sys/fs/cgroup")));
  EXPECT_THAT(driver_.limits(), IsEmpty());
}

TEST_F(MemoryLimitsTest, CheckNeedsACardThatIsNotMig) {
  driver_.set_scenario("card GPU-0 mig=1\n");
  EXPECT_THAT(sentence(limits().check(CardUuid("GPU-0"))), HasSubstr("GPU-0 failed: Other (3)"));
}

TEST_F(MemoryLimitsTest, CheckNeedsALimitThatReadsBack) {
  driver_.set_scenario(std::string(kTwoCards) + "readback GPU-0 1\n");
  EXPECT_THAT(sentence(limits().check(CardUuid("GPU-0"))), HasSubstr("and is 1 bytes"));
}

// The root cgroup may give its children no dmem controller, which containers have.
TEST_F(MemoryLimitsTest, CheckAcceptsADriverThatDoesNotFindTheControllerOfTheProbe) {
  driver_.set_scenario(std::string(kTwoCards) + "fail nvmlDeviceSetMemoryLimits_v1 6\n");
  EXPECT_EQ(sentence(limits().check(CardUuid("GPU-0"))), "");
  driver_.add_file("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
  EXPECT_THAT(sentence(limits().check(CardUuid("GPU-0"))),
              HasSubstr("the kernel's cgroup controller dmem"))
      << "no container would start";
}

}  // namespace
}  // namespace mgpu::plugin
