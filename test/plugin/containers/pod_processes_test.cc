#include "plugin/containers/pod_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_THAT(processes.pods(), ElementsAre(kA, kB));
  test::remove_process(proc.path(), 7);
  test::remove_process(proc.path(), 4'194'303);
  EXPECT_THAT(processes.pods(), ElementsAre(kA));
}

TEST(PodProcesses, OtherFilesOfProcAreNotRead) {
  const test::ScratchFolder proc;
  test::add_process(proc.path() + "/sys", 7, kA);
  test::add_process(proc.path() + "/7x", 7, kA);
  EXPECT_THAT(PodProcesses(proc.path()).pods(), IsEmpty());
  EXPECT_THAT(PodProcesses(proc.path("nothing")).pods(), IsEmpty());
}

// As this program, which runs in no pod.
TEST(PodProcesses, TheNodesOwnProcFolderCanBeRead) {
  EXPECT_FALSE(PodProcesses("/proc").pods().contains(kA));
}

}  // namespace
}  // namespace mgpu::plugin
