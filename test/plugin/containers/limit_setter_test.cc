// Which limits a container gets, and which processes can get them.
#include "plugin/containers/limit_setter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/log.h"
#include "test/plugin/cards/fake_driver.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kUid[] = "11111111-2222-3333-4444-555555555555";
constexpr char kOtherUid[] = "99999999-2222-3333-4444-555555555555";
constexpr char kGone[] =
    "the limits of the driver need cgroup v2 alone, and the node has cgroup v1";

Record share(int card, std::int64_t memory) {
  Record record = test::started(test::allocated(test::device_ids(30), "a"), "x", card);
  record.owner->uid = PodUid(kUid);
  record.cards[0].share.memory = MiB(memory);
  return record;
}

std::string cgroup_of_container(const std::string& uid) {
  return "/kubepods.slice/kubepods-pod" + uid + ".slice/cri-containerd-" + std::string(64, 'a') +
         ".scope";
}

class LimitSetterTest : public testing::Test {
 public:
  LimitSetterTest() {
    EXPECT_TRUE(set_log_level("off"));
    driver_.set_scenario("card GPU-0\ncard GPU-1\n");
    EXPECT_TRUE(records_.load());
    EXPECT_TRUE(records_.keep(record_));
  }

  // Process 17 with this /proc/17/cgroup; its cgroup exists.
  void run(const std::string& path, const std::string& before = "") const {
    std::filesystem::create_directories(folder_.path("proc/17"));
    std::ofstream(folder_.path("proc/17/cgroup")) << before << "0::" << path << "\n";
    std::filesystem::create_directories(cgroup_root() + path);
  }
  std::string set() { return set(record_.id); }
  std::string set(const AllocationId& id) {
    const auto set = setter_.set(id, 17);
    return set ? "set" : set.error().message;
  }
  std::string cgroup_root() const { return driver_.root() + "/sys/fs/cgroup"; }

  const Record record_ = share(1, 1'000);
  FakeDriver driver_;
  test::ScratchFolder folder_;
  Records records_{folder_.path("records")};
  MemoryLimits limits_{{.libraries = {beside_the_test("fake_nvml_r615.so")},
                        .node_root = driver_.root(),
                        .driver_root = "",
                        .timeout = std::chrono::hours(1)}};
  LimitSetter setter_{records_, limits_, folder_.path("proc")};
};

TEST_F(LimitSetterTest, LimitsTheCgroupOfTheContainerToItsShare) {
  const std::string cgroup = cgroup_of_container(kUid);
  run(cgroup);
  EXPECT_EQ(set(), "set");
  EXPECT_THAT(driver_.limits(), ElementsAre("GPU-1 " + cgroup_root() + cgroup + " 0 1048576000"));
}

// In an upgrade with an overlap, the hook asks the new process.
TEST_F(LimitSetterTest, LimitsAContainerThatAnotherProcessStarted) {
  run(cgroup_of_container(kUid));
  Record other = share(0, 500);
  other.id = allocation_id(other.devices, "b");
  Records others(folder_.path("records"));
  ASSERT_TRUE(others.save(other, Durability::kProcess));
  EXPECT_EQ(set(other.id), "set");
  EXPECT_THAT(driver_.limits(), SizeIs(1));
}

TEST_F(LimitSetterTest, LimitsTheLeafWhereTheRuntimeMakesACgroupInTheContainer) {
  const std::string cgroup = cgroup_of_container(kUid) + "/container";
  run(cgroup);
  EXPECT_EQ(set(), "set");
  EXPECT_THAT(driver_.limits(), ElementsAre(HasSubstr(".scope/container 0 ")));
}

TEST_F(LimitSetterTest, RefusesAProcessOfAnotherPod) {
  run(cgroup_of_container(kOtherUid));
  EXPECT_THAT(set(), HasSubstr(std::string("is not of a container of pod uid ") + kUid));
  run("/system.slice/sshd.service");
  EXPECT_THAT(set(), HasSubstr("process 17 in cgroup \"/system.slice/sshd.service\" is not of"));
  EXPECT_THAT(driver_.limits(), IsEmpty());
}

// A container may name the cgroups that it makes.
TEST_F(LimitSetterTest, RefusesAProcessWhoseContainerNamesAnotherPod) {
  run(cgroup_of_container(kOtherUid) + "/pod" + kUid + "/" + std::string(64, 'b'));
  EXPECT_THAT(set(), HasSubstr("is not of a container of pod uid"));
}

TEST_F(LimitSetterTest, RefusesAProcessThatDoesNotExist) {
  EXPECT_THAT(set(), HasSubstr("/17/cgroup"));
}

TEST_F(LimitSetterTest, RefusesACgroupThatDoesNotExist) {
  run(cgroup_of_container(kUid));
  std::filesystem::remove_all(cgroup_root());
  EXPECT_THAT(set(), HasSubstr("does not exist"));
}

TEST_F(LimitSetterTest, RefusesAnAllocationThatIsNotThatOfAStartedContainer) {
  run(cgroup_of_container(kUid));
  const Record unstarted = test::allocated(test::device_ids(10, 50), "b");
  EXPECT_THAT(set(unstarted.id), HasSubstr("is not that of a started container"));
  ASSERT_TRUE(records_.keep(unstarted));
  EXPECT_THAT(set(unstarted.id), HasSubstr("is not that of a started container"));
}

TEST_F(LimitSetterTest, RefusesCgroupV1) {
  run(cgroup_of_container(kUid), "4:memory:/kubepods\n1:name=systemd:/\n");
  EXPECT_EQ(set(), kGone);
}

TEST_F(LimitSetterTest, ReportsTheErrorOfTheDriver) {
  run(cgroup_of_container(kUid));
  driver_.set_scenario("card GPU-1\nreadback GPU-1 2097152\n");
  EXPECT_EQ(set(),
            "the memory limit of card GPU-1 was set to 1048576000 bytes, and is 2097152 bytes");
}

TEST_F(LimitSetterTest, WholeCardsNeedNoDriver) {
  Record whole = share(1, 500);
  whole.cards[0].share.core = Percent(100);
  ASSERT_TRUE(records_.keep(whole));
  EXPECT_EQ(set(), "set");
  EXPECT_EQ(driver_.log(), "");
}

TEST_F(LimitSetterTest, ClearsTheLimitsOfACgroupThatIsStillThere) {
  run(cgroup_of_container(kUid));
  ASSERT_EQ(set(), "set");
  setter_.clear(record_.id);
  EXPECT_THAT(driver_.limits(), SizeIs(2));
  EXPECT_THAT(driver_.limits().back(), testing::EndsWith(" 0 18446744073709551615"));
  setter_.clear(record_.id);
  EXPECT_THAT(driver_.limits(), SizeIs(2)) << "they are cleared once";
}

TEST_F(LimitSetterTest, ARemovedCgroupHasNoLimitsToClear) {
  run(cgroup_of_container(kUid));
  ASSERT_EQ(set(), "set");
  std::filesystem::remove_all(cgroup_root());
  setter_.clear(record_.id);
  EXPECT_THAT(driver_.limits(), SizeIs(1));
}

// --- the parts of a decision ---------------------------------------------------------------------

TEST(LimitsOf, LimitsEachCardOfWhichTheContainerHasAPart) {
  Record record = share(0, 500);
  record.cards.push_back({CardIndex(1), CardUuid("GPU-1"), {Percent(100), MiB(500)}});
  record.cards.push_back({CardIndex(2), CardUuid("GPU-2"), {Percent(1), MiB(700)}});
  EXPECT_THAT(limits_of(record), ElementsAre(CardLimit{CardUuid("GPU-0"), MiB(500)},
                                             CardLimit{CardUuid("GPU-2"), MiB(700)}));
}

TEST(CgroupV2Path, IsThatOfTheOnlyHierarchy) {
  EXPECT_EQ(cgroup_v2_path("0::/a/b\n").value(), "/a/b");
  EXPECT_EQ(cgroup_v2_path("0::/").value(), "/");
  for (const char* text :
       {"", "\n", "0::", "0::a\n", "1:name=systemd:/\n0::/a\n", "0::/a\n0::/b\n"}) {
    EXPECT_EQ(cgroup_v2_path(text).error().message, kGone) << text;
  }
}

TEST(CgroupV2Path, IsNotThatOfAnotherCgroupNamespace) {
  for (const char* text : {"0::/../a\n", "0::/..\n", "0::/a/..\n"}) {
    EXPECT_EQ(cgroup_v2_path(text).error().message,
              "the plugin does not run in the cgroup namespace of the node")
        << text;
  }
}

}  // namespace
}  // namespace mgpu::plugin
