// nvidia-uvm is loaded by programs in the root of the node, which is not that of this process.
#include "plugin/cards/driver/uvm_module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>

#include "plugin/cards/nvml/nvml_source.h"
#include "test/plugin/cards/fake_driver.h"

namespace mgpu::plugin {
namespace {
using testing::HasSubstr;

constexpr char kNeedsRoot[] = "chroot and mknod need root";
constexpr char kNvidiaModprobe[] = "nvidia-modprobe";

class UvmModule : public testing::Test {
 public:
  UvmModule() {
    node_.set_scenario("card GPU-a\n");
    node_.add_cuda();
    std::filesystem::remove(node_.root() + "/dev/nvidia-uvm");
    node_.add_file("/proc/devices", "Character devices:\n  1 mem\n");
  }
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << kNeedsRoot;
  }
  void add_program(const std::string& path) const {
    node_.add_file(path);
    std::filesystem::copy_file(beside_the_test("fake_modprobe"), node_.root() + path,
                               std::filesystem::copy_options::overwrite_existing);
  }
  DriverPlace place() const {
    return {.node_root = node_.root(), .driver_root = "/", .version = "580.95.05"};
  }
  struct stat device(const std::string& path) const {
    struct stat found {};
    EXPECT_EQ(::stat((node_.root() + path).c_str(), &found), 0) << path;
    return found;
  }

  FakeDriver node_;
};

TEST_F(UvmModule, IsLoadedByNvidiaModprobeOfTheNode) {
  add_program("/usr/bin/nvidia-modprobe");
  std::filesystem::remove(node_.root() + "/proc/devices");
  const auto loaded = load_uvm(place(), kNvidiaModprobe);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_TRUE(std::filesystem::exists(node_.root() + "/dev/nvidia-uvm"));
}

TEST_F(UvmModule, IsLoadedByModprobeWhereThereIsNoNvidiaModprobe) {
  add_program("/usr/bin/kmod");
  std::filesystem::create_directories(node_.root() + "/usr/sbin");
  std::filesystem::create_symlink("../bin/kmod", node_.root() + "/usr/sbin/modprobe");
  std::filesystem::create_symlink("usr/sbin", node_.root() + "/sbin");
  const auto loaded = load_uvm(place(), kNvidiaModprobe);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(device("/dev/nvidia-uvm").st_rdev, makedev(511, 0));
  EXPECT_EQ(device("/dev/nvidia-uvm-tools").st_rdev, makedev(511, 1));
  EXPECT_EQ(device("/dev/nvidia-uvm").st_mode, static_cast<mode_t>(S_IFCHR | 0666));
}

TEST_F(UvmModule, GetsItsDevicesWhereItIsLoadedAlready) {
  node_.add_file("/proc/devices", "Character devices:\n240 nvidia-uvm\n");
  const auto loaded = load_uvm(place(), kNvidiaModprobe);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(device("/dev/nvidia-uvm").st_rdev, makedev(240, 0));
}

TEST_F(UvmModule, ADeviceOfAnEarlierMajorNumberIsReplaced) {
  node_.add_file("/proc/devices", "Character devices:\n240 nvidia-uvm\n");
  ASSERT_EQ(::mknod((node_.root() + "/dev/nvidia-uvm").c_str(), S_IFCHR | 0600, makedev(241, 0)),
            0);
  const auto loaded = load_uvm(place(), kNvidiaModprobe);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(device("/dev/nvidia-uvm").st_rdev, makedev(240, 0));
}

// As nvidia-modprobe does.
TEST_F(UvmModule, ItsDevicesHaveOwnerGroupAndModeOfTheDriversParameters) {
  node_.add_file("/proc/devices", "Character devices:\n240 nvidia-uvm\n");
  node_.add_file("/proc/driver/nvidia/params",
                 "ResmanDebugLevel: 4294967295\nDeviceFileUID: 12\nDeviceFileGID: 44\n"
                 "DeviceFileMode: 432\nModifyDeviceFiles: 1\n");
  const auto loaded = load_uvm(place(), kNvidiaModprobe);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const struct stat made = device("/dev/nvidia-uvm");
  EXPECT_EQ(made.st_uid, 12U);
  EXPECT_EQ(made.st_gid, 44U);
  EXPECT_EQ(made.st_mode, static_cast<mode_t>(S_IFCHR | 0660));
}

TEST_F(UvmModule, GetsNoDeviceWhereTheDriversParametersForbidIt) {
  node_.add_file("/proc/devices", "Character devices:\n240 nvidia-uvm\n");
  node_.add_file("/proc/driver/nvidia/params", "ModifyDeviceFiles: 0\n");
  const auto loaded = load_uvm(place(), kNvidiaModprobe);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().message,
            "/dev/nvidia-uvm is missing, and is not created because ModifyDeviceFiles of "
            "/proc/driver/nvidia/params is 0");
  EXPECT_FALSE(std::filesystem::exists(node_.root() + "/dev/nvidia-uvm"));
}

TEST_F(UvmModule, SaysWhichProgramsTheNodeDoesNotHave) {
  const auto loaded = load_uvm(place(), kNvidiaModprobe);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().message,
            "the node has no program nvidia-modprobe; the node has no program modprobe");
}

TEST_F(UvmModule, SaysHowAProgramFailed) {
  node_.add_file("/sbin/modprobe", "no program");
  const auto loaded = load_uvm(place(), kNvidiaModprobe);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message, HasSubstr("modprobe: cannot start /sbin/modprobe with the "
                                                "root " +
                                                node_.root() + ": Permission denied"));
}

TEST_F(UvmModule, IsLoadedBeforeCardsAreOffered) {
  add_program("/sbin/modprobe");
  NvmlOptions options = node_.options();
  options.modprobe = kNvidiaModprobe;
  const auto found = nvml_source(options)->read();
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->cards.size(), 1U);
  EXPECT_EQ(found->cards[0].health, kHealthy);
}

}  // namespace
}  // namespace mgpu::plugin
