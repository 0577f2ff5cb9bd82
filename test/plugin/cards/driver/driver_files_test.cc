#include "plugin/cards/driver/driver_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "test/plugin/cards/fake_driver.h"

namespace mgpu::plugin {
namespace {
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

#if defined(__aarch64__)
const std::string kDebian = "/usr/lib/aarch64-linux-gnu/";
#else
const std::string kDebian = "/usr/lib/x86_64-linux-gnu/";
#endif

void link(const FakeDriver& node, const std::string& target, const std::string& path) {
  node.add_file(path);
  std::filesystem::remove(node.root() + path);
  std::filesystem::create_symlink(target, node.root() + path);
}

DriverPlace place_of(const FakeDriver& node, const std::string& driver_root = "/") {
  return {.node_root = node.root(), .driver_root = driver_root, .version = "580.95.05"};
}

// "libcuda.so.1 <- /run/nvidia/driver/usr/lib64/libcuda.so.580.95.05" for each mount into Debian's
// folder, and "nvidia-smi <- ...".
std::vector<std::string> shown(const std::vector<Mount>& mounts) {
  std::vector<std::string> texts;
  for (const Mount& mount : mounts) {
    EXPECT_TRUE(mount.read_only);
    const std::filesystem::path at(mount.container_path);
    if (at.parent_path() == "/usr/lib64") continue;
    texts.push_back(at.filename().string() + " <- " + mount.host_path);
  }
  return texts;
}

// Adds a device with the numbers 1:3. False without the right to do so.
bool add_device(const FakeDriver& node, const std::string& path) {
  return mknod((node.root() + path).c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0;
}

std::string missing_on(const FakeDriver& node) {
  const DriverPlace place = place_of(node);
  return missing_for_cuda(
      place, {.devices = control_nodes(place), .mounts = driver_files(place), .environment = {}});
}

constexpr char kNoRight[] = "creating device nodes needs root";

TEST(DriverFiles, FindsTheControlNodesThatExist) {
  const FakeDriver node;
  EXPECT_THAT(control_nodes(place_of(node)), IsEmpty());
  node.add_file("/dev/nvidiactl");
  node.add_file("/dev/nvidia-uvm");
  node.add_file("/dev/nvidia0");
  EXPECT_THAT(control_nodes(place_of(node)),
              ElementsAre(DeviceNode{"/dev/nvidiactl", "/dev/nvidiactl"},
                          DeviceNode{"/dev/nvidia-uvm", "/dev/nvidia-uvm"}));
}

TEST(DriverFiles, FindsControlNodesOfADriverContainer) {
  const FakeDriver node;
  node.add_file("/dev/nvidiactl");
  node.add_file("/run/nvidia/driver/dev/nvidiactl");
  node.add_file("/run/nvidia/driver/dev/nvidia-uvm");
  EXPECT_THAT(control_nodes(place_of(node, "/run/nvidia/driver")),
              ElementsAre(DeviceNode{"/dev/nvidiactl", "/dev/nvidiactl"},
                          DeviceNode{"/dev/nvidia-uvm", "/run/nvidia/driver/dev/nvidia-uvm"}));
}

TEST(DriverFiles, MountsLibrariesUnderEachNameIntoBothFolders) {
  const FakeDriver node;
  node.add_file(kDebian + "libcuda.so.580.95.05");
  link(node, "libcuda.so.580.95.05", kDebian + "libcuda.so.1");
  link(node, "libcuda.so.1", kDebian + "libcuda.so");
  const std::string file = kDebian + "libcuda.so.580.95.05";
  EXPECT_THAT(driver_files(place_of(node)),
              UnorderedElementsAre(
                  Mount{file, kDebian + "libcuda.so.580.95.05"},
                  Mount{file, "/usr/lib64/libcuda.so.580.95.05"},
                  Mount{file, kDebian + "libcuda.so.1"}, Mount{file, "/usr/lib64/libcuda.so.1"},
                  Mount{file, kDebian + "libcuda.so"}, Mount{file, "/usr/lib64/libcuda.so"}));
}

TEST(DriverFiles, MountsNoOtherFiles) {
  const FakeDriver node;
  for (const char* name :
       {"libcudart.so.12", "libcuda.so1", "libnvidia-mlx.so.1", "libc.so.6", "libcuda.a",
        "notlibcuda.so.1", "libnvidia-container.so.1", "libnvidia-encode.so.575.1"}) {
    node.add_file(kDebian + name);
  }
  link(node, "libcuda.so.2", kDebian + "libcuda.so.2");
  link(node, "gone.so", kDebian + "libcuda.so.3");
  std::filesystem::create_directories(node.root() + kDebian + "libcuda.so.4");
  EXPECT_THAT(driver_files(place_of(node)), IsEmpty());
  EXPECT_THAT(driver_files({.node_root = node.root() + "/nonexistent", .version = {}}), IsEmpty());
}

TEST(DriverFiles, TakesEveryLibraryOfTheVersionButGraphics) {
  const FakeDriver node;
  const std::string version = ".so.580.95.05";
  for (const char* name :
       {"libcuda", "libnvidia-encode", "libnvcuvid", "libnvidia-nvvm70", "libnvidia-glcore",
        "libnvidia-eglcore", "libnvidia-rtcore", "libnvidia-tls", "libGLX_nvidia", "libnvoptix"}) {
    node.add_file(kDebian + name + version);
  }
  link(node, "libnvcuvid" + version, kDebian + "libnvcuvid.so.1");
  EXPECT_THAT(shown(driver_files(place_of(node))),
              UnorderedElementsAre(
                  "libcuda.so.580.95.05 <- " + kDebian + "libcuda" + version,
                  "libnvcuvid.so.1 <- " + kDebian + "libnvcuvid" + version,
                  "libnvcuvid.so.580.95.05 <- " + kDebian + "libnvcuvid" + version,
                  "libnvidia-encode.so.580.95.05 <- " + kDebian + "libnvidia-encode" + version,
                  "libnvidia-nvvm70.so.580.95.05 <- " + kDebian + "libnvidia-nvvm70" + version));
}

// Where each distribution has libcuda.so.1. The last link of Debian's leads out of the folder
// twice.
struct Layout {
  std::string name;
  std::string driver_root;
  std::string folder;
  std::string nvml;  // the library that was loaded
};

TEST(DriverFiles, AreFoundWhereverTheDriverIsInstalled) {
  const Layout layouts[] = {
      {"Ubuntu", "/", kDebian, "libnvidia-ml.so.1"},
      {"Red Hat", "/", "/usr/lib64/", "libnvidia-ml.so.1"},
      {"driver container", "/run/nvidia/driver", kDebian,
       "/run/nvidia/driver" + kDebian + "libnvidia-ml.so.1"},
      {"plugin in a container", "/run/nvidia/driver", "/usr/lib64/",
       "/host/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1"},
      {"GKE", "/", "/home/kubernetes/bin/nvidia/lib64/",
       "/home/kubernetes/bin/nvidia/lib64/libnvidia-ml.so.1"},
      {"Talos", "/", "/usr/local/glibc/usr/lib/", "libnvidia-ml.so.1"},
      {"Bottlerocket", "/", "/usr/lib/nvidia/tesla/", "libnvidia-ml.so.1"},
  };
  for (const Layout& layout : layouts) {
    const FakeDriver node;
    const std::string root = layout.driver_root == "/" ? "" : layout.driver_root;
    node.add_file(root + layout.folder + "libcuda.so.580.95.05");
    link(node, "libcuda.so.580.95.05", root + layout.folder + "libcuda.so.1");
    ASSERT_EQ(driver_root_of(layout.nvml), layout.driver_root) << layout.name;
    EXPECT_THAT(
        shown(driver_files(place_of(node, layout.driver_root))),
        testing::Contains("libcuda.so.1 <- " + root + layout.folder + "libcuda.so.580.95.05"))
        << layout.name;
  }
}

TEST(DriverFiles, FollowsDebiansAlternativesWithinTheRootOfTheDriver) {
  for (const std::string root : {"", "/run/nvidia/driver"}) {
    const FakeDriver node;
    const std::string version = kDebian + "nvidia/current/libcuda.so.580.95.05";
    node.add_file(root + version);
    link(node, "libcuda.so.580.95.05", root + kDebian + "nvidia/current/libcuda.so.1");
    link(node, kDebian + "nvidia/current/libcuda.so.1",
         root + "/etc/alternatives/nvidia--libcuda.so.1-x86_64-linux-gnu");
    link(node, "/etc/alternatives/nvidia--libcuda.so.1-x86_64-linux-gnu",
         root + kDebian + "libcuda.so.1");
    link(node, "../../../etc/alternatives/nvidia--libcuda.so.1-x86_64-linux-gnu",
         root + kDebian + "libcuda.so");
    EXPECT_THAT(
        shown(driver_files(place_of(node, root.empty() ? "/" : root))),
        UnorderedElementsAre("libcuda.so.1 <- " + root + version, "libcuda.so <- " + root + version,
                             "libcuda.so.580.95.05 <- " + root + version));
  }
}

TEST(DriverFiles, TakesTheFoldersOfBothEndsOfLinks) {
  const FakeDriver node;
  node.add_file(kDebian + "libnvidia-gpucomp.so.580.95.05");
  node.add_file(kDebian + "nvidia/current/libcuda.so.580.95.05");
  node.add_file(kDebian + "nvidia/current/libnvidia-cfg.so.580.95.05");
  link(node, "nvidia/current/libcuda.so.580.95.05", kDebian + "libcuda.so.1");
  EXPECT_THAT(shown(driver_files(place_of(node))),
              testing::IsSupersetOf({"libnvidia-gpucomp.so.580.95.05 <- " + kDebian +
                                         "libnvidia-gpucomp.so.580.95.05",
                                     "libnvidia-cfg.so.580.95.05 <- " + kDebian +
                                         "nvidia/current/libnvidia-cfg.so.580.95.05"}));
}

TEST(DriverFiles, HaveNamesThatProgramsLoadWithoutALinkOnTheNode) {
  const FakeDriver node;
  node.add_file(kDebian + "libcuda.so.580.95.05");
  link(node, "libcuda.so.580.95.05", kDebian + "libcuda.so.1");
  EXPECT_THAT(shown(driver_files(place_of(node))),
              testing::Contains("libcuda.so <- " + kDebian + "libcuda.so.580.95.05"));
}

TEST(DriverFiles, LeavesOutLibrariesOfAnOlderDriverInTheSameFolder) {
  const FakeDriver node;
  for (const std::string version : {"580.95.05", "570.195.03"}) {
    node.add_file(kDebian + "libcuda.so." + version);
  }
  link(node, "libcuda.so.580.95.05", kDebian + "libcuda.so.1");
  const std::string file = kDebian + "libcuda.so.580.95.05";
  EXPECT_THAT(shown(driver_files(place_of(node))),
              UnorderedElementsAre("libcuda.so <- " + file, "libcuda.so.1 <- " + file,
                                   "libcuda.so.580.95.05 <- " + file));
}

TEST(DriverFiles, HaveTheFirmwareOfTheVersion) {
  const FakeDriver node;
  node.add_file("/usr/lib64/libcuda.so.1");
  const std::string folder = "/lib/firmware/nvidia/";
  for (const char* name : {"580.95.05/gsp_ga10x.bin", "580.95.05/ucodes.bin", "580.95.05/other.bin",
                           "580.95.05/gsp.txt", "570.195.03/gsp_ga10x.bin"}) {
    node.add_file(folder + name);
  }
  std::vector<Mount> firmware = driver_files(place_of(node));
  std::erase_if(firmware,
                [&](const Mount& mount) { return !mount.container_path.starts_with(folder); });
  const std::string gsp = folder + "580.95.05/gsp_ga10x.bin";
  const std::string ucodes = folder + "580.95.05/ucodes.bin";
  EXPECT_THAT(firmware, ElementsAre(Mount{gsp, gsp}, Mount{ucodes, ucodes}));
}

TEST(DriverFiles, HaveTheFileThatRegistersOpenCl) {
  const FakeDriver node;
  const std::string root = "/run/nvidia/driver";
  const std::string vendor = "/etc/OpenCL/vendors/nvidia.icd";
  node.add_file(root + vendor);
  EXPECT_THAT(driver_files(place_of(node, root)), IsEmpty()) << "no driver";
  node.add_file(root + "/usr/lib64/libcuda.so.1");
  EXPECT_THAT(driver_files(place_of(node, root)), testing::Contains(Mount{root + vendor, vendor}));
}

TEST(DriverFiles, NoLinkLeadsOutOfTheRootOfTheDriver) {
  const FakeDriver node;
  const std::string root = "/run/nvidia/driver";
  node.add_file("/etc/shadow");
  link(node, "../../../../../../../etc/shadow", root + kDebian + "libcuda.so.1");
  link(node, "/etc/shadow", root + kDebian + "libnvidia-ml.so.1");
  EXPECT_THAT(driver_files(place_of(node, root)), IsEmpty());
}

TEST(DriverFiles, HaveNvidiaSmi) {
  const FakeDriver node;
  node.add_file(kDebian + "libcuda.so.1");
  node.add_file("/usr/lib/nvidia/current/nvidia-smi");
  link(node, "/usr/lib/nvidia/current/nvidia-smi", "/etc/alternatives/nvidia--nvidia-smi");
  link(node, "/etc/alternatives/nvidia--nvidia-smi", "/usr/bin/nvidia-smi");
  EXPECT_THAT(
      driver_files(place_of(node)),
      testing::Contains(Mount{"/usr/lib/nvidia/current/nvidia-smi", "/usr/bin/nvidia-smi"}));
}

TEST(DriverFiles, DoNotHaveAScriptThatStartsNvidiaSmi) {
  const FakeDriver node;
  node.add_file(kDebian + "libcuda.so.1");
  node.add_file("/usr/bin/nvidia-smi", "#!/bin/sh\nexec /usr/local/nvidia/bin/nvidia-smi\n");
  node.add_file("/usr/local/nvidia/bin/nvidia-smi",
                "\x7f"
                "ELF");
  EXPECT_THAT(driver_files(place_of(node)),
              testing::Contains(Mount{"/usr/local/nvidia/bin/nvidia-smi", "/usr/bin/nvidia-smi"}));
}

TEST(DriverFiles, UsesTheFolderWithLibcudaAndIgnoresAnOlderDriver) {
  const FakeDriver node;
  node.add_file(kDebian + "libnvidia-ml.so.1");
  node.add_file("/usr/lib64/libcuda.so.1");
  node.add_file("/usr/lib64/libnvidia-ml.so.1");
  node.add_file("/usr/lib/libcuda.so.1");
  EXPECT_THAT(shown(driver_files(place_of(node))),
              UnorderedElementsAre("libcuda.so <- /usr/lib64/libcuda.so.1",
                                   "libcuda.so.1 <- /usr/lib64/libcuda.so.1",
                                   "libnvidia-ml.so.1 <- /usr/lib64/libnvidia-ml.so.1"));
}

TEST(DriverFiles, DevicesAreLinkedInDevChar) {
  const FakeDriver node;
  if (!add_device(node, "/dev/nvidia0")) GTEST_SKIP() << kNoRight;
  node.add_file("/dev/nvidiactl");
  const std::vector<DeviceNode> nodes = {{"/dev/nvidia0", "/dev/nvidia0"},
                                         {"/dev/nvidiactl", "/dev/nvidiactl"},
                                         {"/dev/gone", "/dev/gone"}};
  for (int times = 0; times < 2; ++times) {
    ASSERT_TRUE(link_in_dev_char(place_of(node), nodes));
    const std::filesystem::path links = node.root() + "/dev/char";
    EXPECT_EQ(std::filesystem::read_symlink(links / "1:3"), "../nvidia0");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(links), {}), 1);
  }
}

TEST(DriverFiles, SayWhichLinkCannotBeMade) {
  const FakeDriver node;
  if (!add_device(node, "/dev/nvidia0")) GTEST_SKIP() << kNoRight;
  node.add_file("/dev/char");
  const auto linked = link_in_dev_char(place_of(node), {{"/dev/nvidia0", "/dev/nvidia0"}});
  ASSERT_FALSE(linked);
  EXPECT_THAT(linked.error().message, testing::HasSubstr("/dev/char/1:3"));
}

TEST(DriverFiles, SayWhatCudaLacks) {
  const FakeDriver node;
  EXPECT_EQ(missing_on(node), "/dev/nvidiactl is missing");
  node.add_file("/dev/nvidiactl");
  EXPECT_EQ(missing_on(node), "/dev/nvidia-uvm is missing");
  node.add_file("/dev/nvidia-uvm");
  EXPECT_EQ(missing_on(node), "libcuda.so.1 is missing");
  node.add_file("/usr/lib64/libcuda.so.1");
  EXPECT_EQ(missing_on(node), "");
}

TEST(DriverFiles, SayThatLibcudaIsOfAnotherDriverThanTheKernelModule) {
  const FakeDriver node;
  node.add_cuda();
  node.add_file("/usr/lib64/libcuda.so.575.1");
  link(node, "libcuda.so.575.1", "/usr/lib64/libcuda.so.1");
  EXPECT_EQ(missing_on(node), "libcuda.so.1 is of driver 575.1, the kernel module of 580.95.05");
}

TEST(DriverFiles, ADeviceOfAnotherModuleIsNotNvidiaUvm) {
  const FakeDriver node;
  if (!add_device(node, "/dev/nvidia-uvm")) GTEST_SKIP() << kNoRight;
  EXPECT_TRUE(has_uvm(place_of(node))) << "without /proc/devices only the node is looked at";
  node.add_file("/proc/devices", "Character devices:\n195 nvidia\n510 nvidia-uvm\n");
  EXPECT_FALSE(has_uvm(place_of(node)));
  node.add_file("/proc/devices", "Character devices:\n195 nvidia\n");
  EXPECT_FALSE(has_uvm(place_of(node)));
  node.add_file("/dev/nvidiactl");
  EXPECT_EQ(missing_on(node), "the kernel module of /dev/nvidia-uvm is not loaded");
  node.add_file("/proc/devices", "Character devices:\n  1 nvidia-uvm\n\nBlock devices:\n");
  EXPECT_TRUE(has_uvm(place_of(node)));
}

TEST(DriverFiles, NvmlIsFoundInEachRootAndBehindAlternatives) {
  const FakeDriver node;
  const std::string current = kDebian + "nvidia/current/libnvidia-ml.so.580.95.05";
  node.add_file(current);
  link(node, current, "/etc/alternatives/nvidia--libnvidia-ml.so.1");
  link(node, "/etc/alternatives/nvidia--libnvidia-ml.so.1", kDebian + "libnvidia-ml.so.1");
  node.add_file("/usr/lib/nvidia/tesla/libnvidia-ml.so.1");
  node.add_file("/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1");
  node.add_file("/opt/driver/usr/lib/libnvidia-ml.so.1");
  const std::string root = node.root();
  EXPECT_THAT(nvml_libraries(root, "/opt/driver"),
              ElementsAre(root + "/opt/driver/usr/lib/libnvidia-ml.so.1", root + current,
                          root + "/usr/lib/nvidia/tesla/libnvidia-ml.so.1",
                          root + "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1"));
  EXPECT_EQ(nvml_libraries("/", "").front(), "libnvidia-ml.so.1");
  EXPECT_THAT(nvml_libraries("/nonexistent", ""), testing::SizeIs(1));
}

TEST(DriverFiles, PrefersTheFolderWithTheDriverOfTheKernelModule) {
  const FakeDriver node;
  node.add_file(kDebian + "libcuda.so.575.1");
  link(node, "libcuda.so.575.1", kDebian + "libcuda.so.1");
  node.add_file("/usr/lib64/libcuda.so.580.95.05");
  link(node, "libcuda.so.580.95.05", "/usr/lib64/libcuda.so.1");
  EXPECT_THAT(shown(driver_files(place_of(node))),
              testing::Contains("libcuda.so.1 <- /usr/lib64/libcuda.so.580.95.05"));
}

TEST(DriverFiles, LibcudaWithoutAVersionIsOfNoOtherDriver) {
  const FakeDriver node;
  node.add_cuda();
  node.add_file("/usr/lib64/libcuda.so.1.1");
  link(node, "libcuda.so.1.1", "/usr/lib64/libcuda.so.1");
  EXPECT_EQ(missing_on(node), "");
}

TEST(DriverFiles, AnUnusualFolderOfNvmlIsSearchedFirst) {
  const FakeDriver node;
  node.add_file("/opt/nvidia/lib/libcuda.so.1");
  node.add_file(kDebian + "libcuda.so.1");
  DriverPlace place = place_of(node);
  place.nvml = node.root() + "/opt/nvidia/lib/libnvidia-ml.so.1";
  EXPECT_THAT(shown(driver_files(place)),
              testing::Contains("libcuda.so.1 <- /opt/nvidia/lib/libcuda.so.1"));
  place.nvml = node.root() + kDebian + "nvidia/current/libnvidia-ml.so.1";
  EXPECT_THAT(shown(driver_files(place)),
              testing::Contains("libcuda.so.1 <- " + kDebian + "libcuda.so.1"));
}

}  // namespace
}  // namespace mgpu::plugin
