#include "plugin/containers/pod_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "plugin/monitor/limits.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const PodUid kA("0f8b4d1c-1a2b-4c3d-8e9f-a0b1c2d3e4f5");
const PodUid kB("1f8b4d1c-1a2b-4c3d-8e9f-a0b1c2d3e4f5");

TEST(PodProcesses, AreThePodsOfAllProcesses) {
  const test::ScratchFolder proc;
  const PodProcesses processes(proc.path());
  test::add_process(proc.path(), 7, kA);
  test::add_process(proc.path(), 8, kA);
  test::add_process(proc.path(), 4'194'303, kB);
  EXPECT_THAT(processes.pods().value(), ElementsAre(kA, kB));
  test::remove_process(proc.path(), 7);
  test::remove_process(proc.path(), 4'194'303);
  EXPECT_THAT(processes.pods().value(), ElementsAre(kA));
}

TEST(PodProcesses, OtherFilesOfProcAreNotRead) {
  const test::ScratchFolder proc;
  test::add_process(proc.path() + "/sys", 7, kA);
  test::add_process(proc.path() + "/7x", 7, kA);
  EXPECT_THAT(PodProcesses(proc.path()).pods().value(), IsEmpty());
}

TEST(PodProcesses, AFolderOrProcessThatCannotBeReadIsAnError) {
  const test::ScratchFolder proc;
  EXPECT_FALSE(PodProcesses(proc.path("nothing")).pods());
  // Too long to be a cgroup.
  test::add_process(proc.path(), 7, kA);
  std::ofstream(proc.path("7/cgroup")) << std::string(kProcFileBytesMax + 1, 'x');
  EXPECT_FALSE(PodProcesses(proc.path()).pods());
}

TEST(PodProcesses, AProcessThatHasEndedIsLeftOut) {
  const test::ScratchFolder proc;
  test::add_process(proc.path(), 7, kA);
  std::filesystem::create_directory(proc.path("8"));
  EXPECT_THAT(PodProcesses(proc.path()).pods().value(), ElementsAre(kA));
}

TEST(PodProcesses, TheProcFolderOfThisMachineCanBeRead) {
  EXPECT_TRUE(PodProcesses("/proc").pods());
}

}  // namespace
}  // namespace mgpu::plugin
