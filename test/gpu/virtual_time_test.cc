// Kernels in virtual time: what they share, and that nothing depends on real time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "plugin/cards/nvml/nvml_library.h"
#include "test/gpu/driver_under_test.h"
#include "test/gpu/machine.h"

namespace mgpu::fake_gpu {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kVirtualHour = 3'600'000 * kMs;
constexpr unsigned kNonBlocking = 1;

// A program in virtual time.
struct TimedProgram {
  const Driver driver{};

  std::int64_t now() const {
    return reinterpret_cast<std::int64_t (*)()>(driver.find("fake_gpu_now"))();
  }
  Handle kernel(const std::string& name) const {
    const std::string image =
        ".version 7.0\n.target sm_70\n.visible .entry " + name + "()\n{ ret; }\n";
    Handle module = nullptr;
    Handle found = nullptr;
    EXPECT_EQ(driver.call("cuModuleLoadData", &module, static_cast<const void*>(image.c_str())),
              kSuccess);
    EXPECT_EQ(driver.call("cuModuleGetFunction", &found, module, name.c_str()), kSuccess);
    return found;
  }
  Handle stream(unsigned flags = kNonBlocking) const {
    Handle made = nullptr;
    EXPECT_EQ(driver.call("cuStreamCreate", &made, flags), kSuccess);
    return made;
  }
  void launch(Handle kernel, Handle stream = nullptr) const {
    EXPECT_EQ(driver.call("cuLaunchKernel", kernel, 1U, 1U, 1U, 1U, 1U, 1U, 0U, stream, Handle{},
                          Handle{}),
              kSuccess);
  }
  Handle event(Handle stream = nullptr) const {
    Handle made = nullptr;
    EXPECT_EQ(driver.call("cuEventCreate", &made, 0U), kSuccess);
    EXPECT_EQ(driver.call("cuEventRecord", made, stream), kSuccess);
    return made;
  }
  float elapsed(Handle begin, Handle end) const {
    float milliseconds = -1;
    EXPECT_EQ(driver.call("cuEventElapsedTime", &milliseconds, begin, end), kSuccess);
    return milliseconds;
  }
  void sleep(std::int64_t nanoseconds) const {
    EXPECT_EQ(driver.call("fake_gpu_sleep", nanoseconds), kSuccess);
  }
  // One kernel after the other until then. Returns how many.
  std::int64_t run_until(std::int64_t end, Handle kernel) const {
    std::int64_t count = 0;
    for (; now() < end; ++count) {
      launch(kernel);
      driver.synchronize();
    }
    return count;
  }
};

using Results = std::vector<std::int64_t>;

class VirtualTime : public DriverTest {
 protected:
  void make(int processes) const {
    EXPECT_TRUE(create_machine("time: virtual\nprocesses: " + std::to_string(processes) +
                                   "\ncards: [{uuid: GPU-6d677075-0000-4000-8000-000000000001}]",
                               machine()));
  }
  // In a process that has joined the machine when this returns. Its results are those of `run`.
  void add(const std::function<Results(const TimedProgram&)>& run,
           const std::string& percent = "") {
    const std::string path = results_of(children_.size());
    children_.push_back(std::make_unique<ChildProcess>([=](const ChildProcess::Pause& pause) {
      if (!percent.empty()) ::setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", percent.c_str(), 1);
      const TimedProgram program;
      pause();
      std::ofstream file(path);
      for (const std::int64_t result : run(program)) file << result << "\n";
    }));
    EXPECT_TRUE(children_.back()->wait_for_pause());
  }
  // The results of all, in the order in which they were added.
  std::vector<Results> run() {
    std::vector<Results> all;
    for (const auto& child : children_) child->go_on();
    for (std::size_t i = 0; i < children_.size(); ++i) {
      EXPECT_EQ(children_[i]->wait(), 0);
      std::ifstream file(results_of(i));
      Results& results = all.emplace_back();
      for (std::int64_t result = 0; file >> result;) results.push_back(result);
    }
    children_.clear();
    return all;
  }
  // One process alone.
  void alone(const std::function<void(const TimedProgram&)>& run) const {
    make(1);
    in_process([&] { run(TimedProgram()); });
  }

  std::vector<std::unique_ptr<ChildProcess>> children_;

 private:
  std::string results_of(std::size_t child) const {
    return folder_.path("results" + std::to_string(child));
  }
};

Results kernels_of_an_hour(const TimedProgram& program) {
  return {program.run_until(kVirtualHour, program.kernel("spin_400000us"))};
}

// One more may have begun before the hour was over.
void expect_near_each(const std::vector<Results>& found, const Results& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(found.at(i).at(0)), static_cast<double>(expected[i]), 1);
  }
}

TEST_F(VirtualTime, EqualKernelsOfTwoProcessesHaveHalfOfAnHourEach) {
  make(2);
  add(kernels_of_an_hour);
  add(kernels_of_an_hour);
  expect_near_each(run(), {4'500, 4'500});
}

TEST_F(VirtualTime, AProcessAloneHasTheCard) {
  make(1);
  add(kernels_of_an_hour);
  expect_near_each(run(), {9'000});
}

// Others have the card for a slice at most, also where their kernels are long.
TEST_F(VirtualTime, AShortKernelWaitsForOneSlice) {
  make(2);
  add([](const TimedProgram& program) {
    return Results{program.run_until(1'000 * kMs, program.kernel("spin_1000000us"))};
  });
  add([](const TimedProgram& program) {
    Results waited;
    const Handle kernel = program.kernel("spin_100us");
    for (int i = 0; i < 3; ++i) {
      program.sleep(7 * kMs);
      const std::int64_t begin = program.now();
      program.launch(kernel);
      program.driver.synchronize();
      waited.push_back(program.now() - begin);
    }
    return waited;
  });
  const std::vector<Results> found = run();
  ASSERT_THAT(found[1], SizeIs(3));
  for (const std::int64_t waited : found[1]) {
    EXPECT_GE(waited, kMs / 10);
    EXPECT_LE(waited, 2 * kMs + kMs / 10);
  }
  EXPECT_GT(found[1][0] + found[1][1] + found[1][2], kMs) << "it has waited for none";
}

// The daemon of MPS for the programs of this test.
class MpsDaemon {
 public:
  explicit MpsDaemon(const std::string& folder) : pipe_(folder + "/pipe") {
    std::filesystem::create_directories(pipe_);
    ::setenv("CUDA_MPS_PIPE_DIRECTORY", pipe_.c_str(), 1);
    const std::string program =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fake_mps_control";
    pid_ = ::fork();
    if (pid_ == 0) {
      ::execl(program.c_str(), program.c_str(), "-f", nullptr);
      ::_exit(3);
    }
    for (int i = 0; i < 5'000 && !std::filesystem::exists(pipe_ + "/control"); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  ~MpsDaemon() {
    ::unsetenv("CUDA_MPS_PIPE_DIRECTORY");
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  MpsDaemon(const MpsDaemon&) = delete;
  MpsDaemon& operator=(const MpsDaemon&) = delete;
  MpsDaemon(MpsDaemon&&) = delete;
  MpsDaemon& operator=(MpsDaemon&&) = delete;

 private:
  const std::string pipe_;
  pid_t pid_ = -1;
};

TEST_F(VirtualTime, ClientsOfMpsRunBesideEachOtherWithTheirWidth) {
  const MpsDaemon daemon(folder_.path("mps"));
  make(3);
  for (const char* const percent : {"20", "30", "50"}) add(kernels_of_an_hour, percent);
  // A kernel takes 2,000, 1,333 and 800 ms.
  expect_near_each(run(), {1'800, 2'700, 4'500});
}

TEST_F(VirtualTime, AClientOfMpsHasItsWidthForAllItsStreams) {
  const MpsDaemon daemon(folder_.path("mps"));
  make(1);
  add(
      [](const TimedProgram& program) {
        const Handle kernel = program.kernel("spin_20pct_1000us");
        for (int i = 0; i < 3; ++i) program.launch(kernel, program.stream());
        program.driver.synchronize();
        return Results{program.now()};
      },
      "20");
  EXPECT_EQ(run(), (std::vector<Results>{{3 * kMs}}));
}

TEST_F(VirtualTime, ClientsOfMpsThatWantMoreThanTheCardShareIt) {
  const MpsDaemon daemon(folder_.path("mps"));
  make(2);
  for (int i = 0; i < 2; ++i) add(kernels_of_an_hour);
  expect_near_each(run(), {4'500, 4'500});
}

TEST_F(VirtualTime, StreamsRunInOrderAndBesideEachOtherWhileTheirWidthsFit) {
  alone([](const TimedProgram& program) {
    const Handle half = program.kernel("spin_50pct_1000us");
    const Handle most = program.kernel("spin_80pct_1000us");
    const Handle one = program.stream();
    const Handle two = program.stream();
    const Handle begin = program.event();
    program.launch(half, one);
    program.launch(half, one);
    program.launch(half, two);
    const Handle end_one = program.event(one);
    const Handle end_two = program.event(two);
    EXPECT_EQ(program.driver.call("cuEventQuery", end_one), kNotReady);
    float early = 0;
    EXPECT_EQ(program.driver.call("cuEventElapsedTime", &early, begin, end_one), kNotReady);
    EXPECT_EQ(program.driver.call("cuEventSynchronize", end_two), kSuccess);
    EXPECT_EQ(program.now(), kMs);
    program.driver.synchronize();
    EXPECT_EQ(program.now(), 2 * kMs);
    EXPECT_EQ(program.elapsed(begin, end_two), 1);
    EXPECT_EQ(program.elapsed(begin, end_one), 2);
    EXPECT_EQ(program.elapsed(end_one, end_two), -1);

    const Handle again = program.event();
    program.launch(most, one);
    program.launch(most, two);
    const Handle end_first = program.event(one);
    const Handle end_second = program.event(two);
    program.driver.synchronize();
    EXPECT_EQ(program.elapsed(again, end_first), 1);
    // A quarter of its width for 1 ms, and then all of it.
    EXPECT_EQ(program.elapsed(again, end_second), 1.75F);
  });
}

TEST_F(VirtualTime, AStreamWaitsForEventsAndForTheDefaultStream) {
  alone([](const TimedProgram& program) {
    const Handle kernel = program.kernel("spin_10pct_1000us");
    const Handle one = program.stream();
    const Handle two = program.stream();
    const Handle begin = program.event();
    program.launch(kernel, one);
    EXPECT_EQ(program.driver.call("cuStreamWaitEvent", two, program.event(one), 0U), kSuccess);
    program.launch(kernel, two);
    const Handle end_two = program.event(two);
    program.launch(kernel, one);
    EXPECT_EQ(program.driver.call("cuStreamSynchronize", one), kSuccess);
    EXPECT_EQ(program.now(), 2 * kMs);
    EXPECT_EQ(program.driver.call("cuStreamQuery", two), kSuccess);
    EXPECT_EQ(program.elapsed(begin, end_two), 2) << "it has waited for the first one";

    const Handle blocking = program.stream(0);
    program.launch(kernel, blocking);
    program.launch(kernel);
    program.launch(kernel, blocking);
    program.launch(kernel, one);
    EXPECT_EQ(program.driver.call("cuStreamSynchronize", one), kSuccess);
    EXPECT_EQ(program.now(), 3 * kMs) << "it waits for no default stream";
    EXPECT_EQ(program.driver.call("cuStreamSynchronize", Handle{}), kSuccess);
    EXPECT_EQ(program.now(), 5 * kMs);
  });
}

TEST_F(VirtualTime, SynchronousCopiesAndGraphsAndQueriesTakeIt) {
  alone([](const TimedProgram& program) {
    const Handle kernel = program.kernel("spin_1000us");
    const Handle stream = program.stream();
    char byte = 0;
    const Pointer memory = program.driver.allocate(kMiB);
    const auto read = [&] {
      EXPECT_EQ(
          program.driver.call("cuMemcpyDtoH_v2", static_cast<void*>(&byte), memory, std::size_t{1}),
          kSuccess);
    };
    program.launch(kernel);
    EXPECT_EQ(program.driver.call("cuMemcpyDtoHAsync_v2", static_cast<void*>(&byte), memory,
                                  std::size_t{1}, Handle{}),
              kSuccess);
    EXPECT_EQ(program.now(), 0);
    read();
    EXPECT_EQ(program.now(), kMs);

    Handle graph = nullptr;
    Handle launched = nullptr;
    EXPECT_EQ(program.driver.call("cuStreamBeginCapture_v2", stream, 0), kSuccess);
    for (int i = 0; i < 3; ++i) program.launch(kernel, stream);
    EXPECT_EQ(program.driver.call("cuStreamEndCapture", stream, &graph), kSuccess);
    EXPECT_EQ(
        program.driver.call("cuGraphInstantiateWithFlags", &launched, graph, std::uint64_t{0}),
        kSuccess);
    EXPECT_EQ(program.now(), kMs) << "nothing has run";
    EXPECT_EQ(program.driver.call("cuGraphLaunch", launched, stream), kSuccess);
    int asked = 0;
    while (program.driver.call("cuStreamQuery", stream) == kNotReady) ++asked;
    EXPECT_EQ(program.now(), 4 * kMs);
    EXPECT_EQ(asked, 3'000);
  });
}

// CUDA_KERNEL_NODE_PARAMS
struct KernelNode {
  Handle function;
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  void** arguments = nullptr;
  void** extra = nullptr;
  Handle kernel = nullptr;
  Handle context = nullptr;
};

TEST_F(VirtualTime, KernelsOfAGraphTakeIt) {
  alone([](const TimedProgram& program) {
    Handle graph = nullptr;
    Handle launched = nullptr;
    Handle node = nullptr;
    const auto add = [&](Handle function, unsigned blocks = 1) {
      KernelNode parameters{.function = function, .grid = {blocks, 1, 1}};
      return program.driver.call("cuGraphAddKernelNode_v2", &node, graph, Handle{}, std::size_t{0},
                                 static_cast<void*>(&parameters));
    };
    EXPECT_EQ(program.driver.call("cuGraphCreate", &graph, 0U), kSuccess);
    EXPECT_EQ(add(program.kernel("spin_1000us")), kSuccess);
    EXPECT_EQ(add(program.kernel("spin_2000us")), kSuccess);
    EXPECT_EQ(add(program.kernel("spin_2000us"), 0), kInvalidValue);
    EXPECT_EQ(add(graph), kInvalidHandle);
    EXPECT_EQ(
        program.driver.call("cuGraphInstantiateWithFlags", &launched, graph, std::uint64_t{0}),
        kSuccess);
    for (const std::int64_t end : {3 * kMs, 6 * kMs}) {
      EXPECT_EQ(program.driver.call("cuGraphLaunch", launched, Handle{}), kSuccess);
      program.driver.synchronize();
      EXPECT_EQ(program.now(), end);
    }
  });
}

// What NVML says: the utilization of the card, and then that of each process that had some.
Results utilization(std::uint64_t since_us) {
  namespace nvml = plugin::nvml;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const auto library = nvml::Library::open({folder / "fake-gpu/libnvidia-ml.so.1"});
  EXPECT_TRUE(library) << library.error().message;
  const nvml::Functions& f = (*library)->functions();
  nvml::Device device = nullptr;
  nvml::Utilization rates{};
  nvml::UtilizationSample samples[4] = {};
  unsigned count = 4;
  EXPECT_EQ(f.init(), nvml::kOk);
  EXPECT_EQ(f.device_by_index(0, &device), nvml::kOk);
  EXPECT_EQ(f.utilization(device, &rates), nvml::kOk);
  const int code = f.process_utilization(device, samples, &count, since_us);
  EXPECT_EQ(code, count > 0 ? nvml::kOk : nvml::kNotFound);
  Results found{rates.gpu};
  for (unsigned i = 0; i < count; ++i) found.push_back(samples[i].sm);
  EXPECT_EQ(f.shutdown(), nvml::kOk);
  return found;
}

TEST_F(VirtualTime, NvmlSaysInHowMuchOfTheLastSecondKernelsRan) {
  alone([](const TimedProgram& program) {
    const auto run = [&](const char* kernel) {
      program.launch(program.kernel(kernel));
      program.driver.synchronize();
    };
    EXPECT_THAT(utilization(0), ElementsAre(0));
    run("spin_250000us");
    EXPECT_THAT(utilization(0), ElementsAre(0)) << "the second is not over";
    program.sleep(750 * kMs);
    EXPECT_THAT(utilization(0), ElementsAre(25, 25));
    EXPECT_THAT(utilization(1'000'000), ElementsAre(25)) << "there is no newer sample";
    run("spin_2500000us");
    EXPECT_THAT(utilization(0), ElementsAre(100, 100));
    program.sleep(500 * kMs);
    EXPECT_THAT(utilization(0), ElementsAre(50, 50));
    program.sleep(7'300 * kMs);
    EXPECT_THAT(utilization(0), ElementsAre(0));
  });
}

TEST_F(VirtualTime, NvmlSaysWhatEachProcessHasOfACard) {
  make(2);
  const auto run = [](const TimedProgram& program, std::int64_t seconds) {
    return program.run_until(seconds * 1'000 * kMs, program.kernel("spin_10000us"));
  };
  add([run](const TimedProgram& program) {
    run(program, 10);
    return utilization(0);
  });
  add([run](const TimedProgram& program) { return Results{run(program, 12)}; });
  const Results found = this->run().at(0);
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_EQ(found[0], 100);
  EXPECT_NEAR(static_cast<double>(found[1]), 50, 1);
  EXPECT_NEAR(static_cast<double>(found[2]), 50, 1);
}

TEST_F(VirtualTime, TheDriverTakesSoManyLaunches) {
  alone([](const TimedProgram& program) {
    const Handle kernel = program.kernel("spin_1000us");
    for (int i = 0; i < 1'024; ++i) program.launch(kernel);
    EXPECT_EQ(program.now(), 0);
    program.launch(kernel);
    EXPECT_EQ(program.now(), kMs);
    program.driver.synchronize();
    EXPECT_EQ(program.now(), 1'025 * kMs);
  });
}

class TimeTrace : public VirtualTime {
 protected:
  // Of three programs with streams and sleeps that differ, and that may be delayed in real time.
  std::vector<Results> trace(bool is_delayed) {
    make(3);
    for (int which = 0; which < 3; ++which) {
      add([=](const TimedProgram& program) {
        Results times;
        const std::string width = std::to_string(30 + 20 * which);
        const Handle kernel =
            program.kernel("spin_" + width + "pct_" + std::to_string(170 + 311 * which) + "us");
        const std::vector<Handle> streams = {program.stream(), program.stream(0), nullptr};
        for (std::size_t i = 0; i < 600; ++i) {
          program.launch(kernel, streams[i % streams.size()]);
          if (i % 7 == 0) program.driver.synchronize();
          if (is_delayed && i % 40 == static_cast<std::size_t>(which)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          if (i % 11 == 0) program.sleep(130'000 * (which + 1));
          times.push_back(program.now());
        }
        return times;
      });
    }
    return run();
  }
};

TEST_F(TimeTrace, IsTheSameEachTimeHoweverFastTheProgramsAre) {
  const std::vector<Results> first = trace(false);
  EXPECT_THAT(first.at(2), SizeIs(600));
  EXPECT_GT(first.at(2).back(), 100 * kMs);
  EXPECT_EQ(trace(false), first);
  EXPECT_EQ(trace(true), first);
  const MpsDaemon daemon(folder_.path("mps"));
  const std::vector<Results> shared = trace(false);
  EXPECT_NE(shared, first);
  EXPECT_EQ(trace(true), shared);
}

TEST_F(VirtualTime, TheClockWaitsForAProgramThatRunsUntilItIsKilled) {
  make(3);
  const auto until_two_seconds = [](const TimedProgram& program) {
    return Results{program.run_until(2'000 * kMs, program.kernel("spin_1000us"))};
  };
  add(until_two_seconds);
  add(until_two_seconds);
  ChildProcess running([](const ChildProcess::Pause& pause) {
    const TimedProgram program;
    const Handle kernel = program.kernel("spin_1000us");
    pause();
    program.run_until(100 * kMs, kernel);
    pause();
  });
  EXPECT_TRUE(running.wait_for_pause());
  for (const auto& child : children_) child->go_on();
  running.go_on();
  EXPECT_TRUE(running.wait_for_pause());
  std::string why;
  const auto seen = Machine::open(machine(), why);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::int64_t at = seen->clock();
  EXPECT_GE(at, 100 * kMs);
  EXPECT_LE(at, 110 * kMs);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(seen->clock(), at);
  running.kill();
  for (const auto& child : children_) EXPECT_EQ(child->wait(), 0);
  EXPECT_GE(seen->clock(), 2'000 * kMs);
  children_.clear();
}

TEST_F(VirtualTime, KillsAtAnyMomentStopNoClock) {
  for (int i = 0; i < 10; ++i) {
    make(1);
    ChildProcess killed([](const ChildProcess::Pause& pause) {
      const TimedProgram program;
      pause();
      program.run_until(kVirtualHour, program.kernel("spin_10us"));
    });
    EXPECT_TRUE(killed.wait_for_pause());
    add([](const TimedProgram& program) {
      return Results{program.run_until(1'000 * kMs, program.kernel("spin_1000us"))};
    });
    killed.go_on();
    children_.back()->go_on();
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 10));
    killed.kill();
    EXPECT_EQ(children_.back()->wait(), 0);
    children_.clear();
  }
}

}  // namespace
}  // namespace mgpu::fake_gpu
