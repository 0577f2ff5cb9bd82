#include "plugin/cards/driver_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(DriverFiles, FindsTheControlNodesThatExist) {
  const FakeDriver node;
  EXPECT_THAT(control_nodes(node.root()), IsEmpty());
  node.add_file("/dev/nvidiactl");
  node.add_file("/dev/nvidia-uvm");
  node.add_file("/dev/nvidia0");
  EXPECT_THAT(control_nodes(node.root()),
              ElementsAre(DeviceNode{"/dev/nvidiactl", "/dev/nvidiactl"},
                          DeviceNode{"/dev/nvidia-uvm", "/dev/nvidia-uvm"}));
}

TEST(DriverFiles, MountsLibrariesUnderEachNameIntoBothFolders) {
  const FakeDriver node;
  node.add_file(kDebian + "libcuda.so.580.95.05");
  link(node, "libcuda.so.580.95.05", kDebian + "libcuda.so.1");
  link(node, "libcuda.so.1", kDebian + "libcuda.so");
  const std::string file = kDebian + "libcuda.so.580.95.05";
  EXPECT_THAT(driver_libraries(node.root(), "/"),
              UnorderedElementsAre(
                  Mount{file, kDebian + "libcuda.so.580.95.05"},
                  Mount{file, "/usr/lib64/libcuda.so.580.95.05"},
                  Mount{file, kDebian + "libcuda.so.1"}, Mount{file, "/usr/lib64/libcuda.so.1"},
                  Mount{file, kDebian + "libcuda.so"}, Mount{file, "/usr/lib64/libcuda.so"}));
}

TEST(DriverFiles, MountsNoOtherFiles) {
  const FakeDriver node;
  for (const char* name : {"libcudart.so.12", "libcuda.so1", "libnvidia-mlx.so.1", "libc.so.6",
                           "libcuda.a", "notlibcuda.so.1"}) {
    node.add_file(kDebian + name);
  }
  link(node, "libcuda.so.2", kDebian + "libcuda.so.2");
  link(node, "gone.so", kDebian + "libcuda.so.3");
  std::filesystem::create_directories(node.root() + kDebian + "libcuda.so.4");
  EXPECT_THAT(driver_libraries(node.root(), "/"), IsEmpty());
  EXPECT_THAT(driver_libraries(node.root() + "/nonexistent", "/"), IsEmpty());
}

TEST(DriverFiles, SearchesTheDriverRoot) {
  const FakeDriver node;
  node.add_file("/usr/lib64/libcuda.so.1");
  node.add_file("/run/nvidia/driver" + kDebian + "libnvidia-ml.so.1");
  const std::string file = "/run/nvidia/driver" + kDebian + "libnvidia-ml.so.1";
  EXPECT_THAT(driver_libraries(node.root(), "/run/nvidia/driver"),
              ElementsAre(Mount{file, kDebian + "libnvidia-ml.so.1"},
                          Mount{file, "/usr/lib64/libnvidia-ml.so.1"}));
}

TEST(DriverFiles, UsesOneFolderAndIgnoresAnOlderDriver) {
  const FakeDriver node;
  node.add_file(kDebian + "libcuda.so.1");
  node.add_file("/usr/lib64/libcuda.so.1");
  node.add_file("/usr/lib64/libnvidia-ml.so.1");
  EXPECT_THAT(driver_libraries(node.root(), "/"),
              ElementsAre(Mount{kDebian + "libcuda.so.1", kDebian + "libcuda.so.1"},
                          Mount{kDebian + "libcuda.so.1", "/usr/lib64/libcuda.so.1"}));
}

}  // namespace
}  // namespace mgpu::plugin
