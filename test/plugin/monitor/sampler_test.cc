#include "plugin/monitor/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "plugin/monitor/limits.h"
#include "test/plugin/monitor/monitor_world.h"

namespace mgpu::plugin {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::string kPodUid = "0f8b4d1c-1a2b-4c3d-8e9f-a0b1c2d3e4f5";
const std::string kOneId(64, 'a');
const std::string kAnotherId(64, 'b');

std::string cgroup(const std::string& id) {
  return "0::/kubepods/pod" + kPodUid + "/" + id + "\n";
}

// In the kernel's format. Field 22 is the start time.
std::string stat_text(std::int64_t pid, const std::string& name, const std::string& start) {
  return std::to_string(pid) + " (" + name +
         ") S 1 10 10 0 -1 4194560 100 0 0 0 5 6 0 0 20 0 1 0 " + start + " 10000 200 0\n";
}

class SamplerTest : public ::testing::Test {
 public:
  SamplerTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~SamplerTest() override { std::filesystem::remove_all(folder_); }

  void write(std::int64_t pid, const std::string& name, const std::string& text) {
    const std::string folder = folder_ + "/" + std::to_string(pid);
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/" + name, std::ios::binary) << text;
  }
  void start(std::int64_t pid, const std::string& start_time, const std::string& cgroup_text) {
    write(pid, "stat", stat_text(pid, "python3", start_time));
    write(pid, "cgroup", cgroup_text);
  }
  void end(std::int64_t pid) { std::filesystem::remove_all(folder_ + "/" + std::to_string(pid)); }
  std::vector<ProcessSample> sample(std::initializer_list<std::int64_t> pids) {
    std::vector<CardProcess> processes;
    for (const std::int64_t pid : pids) processes.push_back({card(0), pid, MiB(5), 1.5});
    return sampler_.sample(processes);
  }
  std::string container_of_one(std::int64_t pid) {
    const auto samples = sample({pid});
    if (samples.empty()) return "gone";
    return samples[0].container ? samples[0].container->container_id : "none";
  }

  const std::string folder_ = testing::TempDir() + "sampler-" + std::to_string(::getpid());
  ProcessSampler sampler_{folder_};
};

TEST_F(SamplerTest, FindsTheContainerOfAProcess) {
  start(11, "500", cgroup(kOneId));
  const auto samples = sample({11});
  ASSERT_THAT(samples, SizeIs(1));
  EXPECT_EQ(samples[0].container, (CgroupContainer{PodUid(kPodUid), kOneId}));
  EXPECT_EQ(samples[0].card, card(0));
  EXPECT_EQ(samples[0].pid, 11);
  EXPECT_EQ(samples[0].memory, MiB(5));
  EXPECT_EQ(samples[0].sm_percent, 1.5);
}

TEST_F(SamplerTest, ReturnsProcessesOutsideOfContainers) {
  start(11, "500", "0::/system.slice/sshd.service\n");
  EXPECT_EQ(container_of_one(11), "none");
}

TEST_F(SamplerTest, SkipsEndedProcesses) {
  start(11, "500", cgroup(kOneId));
  EXPECT_THAT(sample({11, 12, 0, -1}), SizeIs(1));
  EXPECT_THAT(sample({11}), SizeIs(1));
}

TEST_F(SamplerTest, ReadsTheCgroupOnce) {
  start(11, "500", cgroup(kOneId));
  sample({11});
  write(11, "cgroup", cgroup(kAnotherId));
  EXPECT_EQ(container_of_one(11), kOneId);
}

TEST_F(SamplerTest, DetectsAReusedPid) {
  start(11, "500", cgroup(kOneId));
  sample({11});
  start(11, "501", cgroup(kAnotherId));
  EXPECT_EQ(container_of_one(11), kAnotherId);
}

TEST_F(SamplerTest, ForgetsProcessesThatAreNoLongerSampled) {
  start(11, "500", cgroup(kOneId));
  sample({11});
  sample({});
  write(11, "cgroup", cgroup(kAnotherId));
  EXPECT_EQ(container_of_one(11), kAnotherId);
}

TEST_F(SamplerTest, ReadsTheCgroupAgainOutsideOfContainers) {
  start(11, "500", "0::/\n");
  EXPECT_EQ(container_of_one(11), "none");
  write(11, "cgroup", cgroup(kOneId));
  EXPECT_EQ(container_of_one(11), kOneId);
}

TEST_F(SamplerTest, ReadsTheStartWithAnyProgramName) {
  for (const char* const name : {"a b", "(", ")", ") S 1 2 3", "a)\nb (", ""}) {
    end(11);
    sample({});
    write(11, "stat", stat_text(11, name, "500"));
    write(11, "cgroup", cgroup(kOneId));
    EXPECT_EQ(container_of_one(11), kOneId) << name;
  }
}

TEST_F(SamplerTest, ReadsTheNameOfAProgram) {
  for (const std::string name : {"python3", "a) S (b", "", "two words"}) {
    write(11, "stat", stat_text(11, name, "500"));
    write(11, "cgroup", cgroup(kOneId));
    const auto samples = sample({11});
    ASSERT_THAT(samples, SizeIs(1));
    EXPECT_EQ(samples[0].program, name);
  }
}

TEST_F(SamplerTest, TreatsAProcessWithInvalidFilesAsEnded) {
  const std::string stats[] = {"",
                               "11",
                               "11 (a)",
                               "11 (a) S 1 2",
                               stat_text(11, "a", "x"),
                               stat_text(11, "a", "-5"),
                               stat_text(11, "a", "5x"),
                               stat_text(11, "a", "99999999999999999999999"),
                               std::string(kProcFileBytesMax + 1, ' ')};
  for (const std::string& text : stats) {
    start(11, "500", cgroup(kOneId));
    write(11, "stat", text);
    EXPECT_EQ(container_of_one(11), "gone") << text.substr(0, 80);
  }
  start(11, "500", std::string(kProcFileBytesMax + 1, 'x'));
  EXPECT_EQ(container_of_one(11), "gone");
}

TEST_F(SamplerTest, DoesNotBlockOnSpecialFiles) {
  std::filesystem::create_directories(folder_ + "/11/stat");
  EXPECT_EQ(container_of_one(11), "gone");
  std::filesystem::create_directories(folder_ + "/12");
  ASSERT_EQ(::mkfifo((folder_ + "/12/stat").c_str(), 0600), 0);
  EXPECT_EQ(container_of_one(12), "gone");
}

TEST(ProcessSampler, ReadsThisProcessFromTheRealProc) {
  ProcessSampler sampler("/proc");
  const auto samples = sampler.sample({{card(0), ::getpid(), {}, {}}});
  ASSERT_THAT(samples, SizeIs(1));
  EXPECT_FALSE(samples[0].memory);
}

TEST(ProcessSampler, ReturnsNothingWithoutProc) {
  ProcessSampler sampler("/no/such/proc");
  EXPECT_THAT(sampler.sample({{card(0), 1, {}, {}}, {card(0), 2, {}, {}}}), IsEmpty());
}

}  // namespace
}  // namespace mgpu::plugin
