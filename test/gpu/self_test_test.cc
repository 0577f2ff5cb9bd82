// The self test of the library on cards of this machine.
#include "plugin/containers/self_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "test/gpu/child_process.h"
#include "test/gpu/driver_under_test.h"
#include "test/support/scratch_folder.h"

namespace mgpu::fake_gpu {
namespace {

using plugin::SelfTest;
using testing::HasSubstr;
using testing::Pair;
using testing::StartsWith;
using Outcome = SelfTest::Outcome;

constexpr char kCard[] = "GPU-6d677075-0000-4000-8000-000000000001";

// The kernel ends the processes of a program that was killed a moment later.
template <class Condition>
bool wait(const Condition& condition) {
  for (int i = 0; i < 1'000 && !condition(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return condition();
}

class SelfTestTest : public testing::Test {
 public:
  SelfTestTest() {
    std::filesystem::create_directories(program_.empty);
    library_ = {.cuda = products_ + "/libmgpu-cuda.so",
                .nvml = products_ + "/libmgpu-nvml.so",
                .empty = program_.empty,
                .pages = folder_.path("pages")};
  }

  void make_machine(const std::string& of_card = "") const {
    const std::string scenario = "cards:\n  - {uuid: " + std::string(kCard) + of_card + "}\n";
    const auto made = create_machine(scenario, folder_.path("machine"));
    ASSERT_TRUE(made) << made.error().message;
  }
  // What a container gets of the node, as the plugin finds it.
  plugin::Edits shared(const std::string& fault) const {
    plugin::Edits edits{
        .devices = {{"/dev/nvidiactl", "/dev/null"}},
        .mounts = {{folder_.path("machine"), "/machine"},
                   {driver_ + "/libcuda.so.1", "/usr/lib64/libcuda.so.1"},
                   {driver_ + "/libnvidia-ml.so.1", "/usr/lib64/libnvidia-ml.so.1"}},
        .environment = {{"MGPU_FAKE_GPU", "/machine"}, {"MGPU_FAKE_GPU_FAULT", fault}}};
    return edits;
  }
  SelfTest test(const std::string& fault = "", MiB context = MiB(528)) {
    const auto input =
        plugin::self_test_input(library_, "/", {{"/dev/nvidia0", "/dev/null"}}, shared(fault));
    EXPECT_TRUE(input) << input.error().message;
    program_.context = context;
    return plugin::run_self_test(program_, CardUuid(kCard), *input, cancelled_);
  }
  std::pair<Outcome, std::string> outcome(const std::string& fault) {
    SelfTest result = test(fault);
    return {result.outcome, std::move(result.why)};
  }
  // Nothing of it is left: on the card, in the mounts, in the folder.
  void expect_nothing_left() const {
    std::string why;
    const auto machine = Machine::open(folder_.path("machine"), why);
    ASSERT_NE(machine, nullptr) << why;
    EXPECT_TRUE(wait([&] { return machine->processes(0).empty(); }));
    EXPECT_TRUE(std::filesystem::is_empty(program_.empty));
    std::ifstream mounts("/proc/self/mountinfo");
    EXPECT_THAT(std::string(std::istreambuf_iterator<char>(mounts), {}),
                testing::Not(HasSubstr(program_.empty)));
  }

  const std::string programs_ =
      std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  const std::string products_ = programs_ + "/../plugin";
  const std::string driver_ = programs_ + "/fake-gpu";
  test::ScratchFolder folder_;
  plugin::SelfTestProgram program_{
      .path = products_ + "/mgpu-check-share", .empty = folder_.path("empty"), .context = MiB(528)};
  plugin::ShareLibrary library_;
  std::atomic<bool> cancelled_ = false;
};

TEST_F(SelfTestTest, TheLibraryPasses) {
  make_machine();
  EXPECT_THAT(outcome(""), Pair(Outcome::kPassed, ""));
  expect_nothing_left();
}

// Contexts may take less or more than what is reserved for them.
TEST_F(SelfTestTest, TheLibraryPassesWithContextsOfEachSize) {
  for (const char* const size : {"100", "518", "900"}) {
    make_machine(", contextMiB: " + std::string(size));
    for (const int reserved : {0, 528, 700}) {
      EXPECT_EQ(test("", MiB(reserved)).why, "") << size << " MiB, " << reserved << " reserved";
    }
  }
}

// A fault of the driver by which one of its ways to allocate exceeds the limit, or fails within it.
TEST_F(SelfTestTest, EachFaultIsNamedByItsCheck) {
  const std::pair<const char*, const char*> faults[] = {
      {"memory", "memory: cuMemAlloc gave 24 MiB where 96 were left, then 401"},
      {"pool", "pool: cuMemAllocAsync gave 192 MiB where 96 were left, then 0"},
      {"virtual", "virtual: cuMemCreate gave 32 MiB where 96 were left, then 401"},
      {"graph", "graph: 192 MiB by cuGraphLaunch returned 0 where 96 were left"},
      {"second", "processes: a program ended with signal 6"},
      {"helper", "ended: what a killed program had is not free: 2"},
      {"crash", "start: a program ended with signal 6"}};
  for (const auto& [fault, why] : faults) {
    make_machine();
    EXPECT_THAT(outcome(fault), Pair(Outcome::kFailed, why)) << fault;
    expect_nothing_left();
  }
}

// The mounts have no effect, or the library is another one.
TEST_F(SelfTestTest, ALibraryWithoutALimitFails) {
  make_machine();
  library_.cuda = driver_ + "/libcuda.so.1";
  EXPECT_THAT(outcome(""), Pair(Outcome::kFailed, HasSubstr("sees 143155 MiB as its card, and")));
}

TEST_F(SelfTestTest, ADriverThatDoesNotStartIsNotTheLibrarysFault) {
  make_machine();
  EXPECT_THAT(outcome("broken"), Pair(Outcome::kNotTested, HasSubstr("also without the library")));
}

TEST_F(SelfTestTest, AFullCardIsNotTested) {
  make_machine(", memoryMiB: 1300");
  EXPECT_THAT(outcome(""), Pair(Outcome::kNotTested, StartsWith("start: only ")));
  make_machine(", memoryMiB: 900");
  EXPECT_THAT(outcome(""), Pair(Outcome::kNotTested, "start: a context returns 2"));
}

TEST_F(SelfTestTest, ATestThatHangsEnds) {
  make_machine();
  std::thread canceller([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    cancelled_ = true;
  });
  EXPECT_THAT(outcome("hang"), Pair(Outcome::kNotTested, "it was cancelled"));
  canceller.join();
  expect_nothing_left();
}

TEST_F(SelfTestTest, NothingIsLeftOfAPluginThatIsKilled) {
  make_machine();
  ChildProcess plugin([this](const ChildProcess::Pause&) { test("hang"); });
  std::string why;
  const auto machine = Machine::open(folder_.path("machine"), why);
  ASSERT_NE(machine, nullptr) << why;
  ASSERT_TRUE(wait([&] { return !machine->processes(0).empty(); }));
  plugin.kill();
  EXPECT_TRUE(wait([&] { return machine->processes(0).empty(); }));
  expect_nothing_left();
}

TEST_F(SelfTestTest, WithoutItsProgramNothingIsKnown) {
  make_machine();
  program_.path = folder_.path("no-such-program");
  EXPECT_THAT(outcome(""), Pair(Outcome::kNotTested, HasSubstr("cannot start")));
}

TEST_F(SelfTestTest, OtherLibrariesAreTestedAgain) {
  make_machine();
  const auto identity = [this] {
    return plugin::self_test_input(library_, "/", {}, shared(""))->identity;
  };
  const std::string before = identity();
  library_.cuda = folder_.path("libmgpu-cuda.so");
  std::filesystem::copy_file(products_ + "/libmgpu-cuda.so", library_.cuda);
  const std::string copied = identity();
  EXPECT_NE(copied, before);
  EXPECT_EQ(identity(), copied);
  std::filesystem::last_write_time(
      library_.cuda, std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_NE(identity(), copied);
}

}  // namespace
}  // namespace mgpu::fake_gpu
