// Processes: how they begin, compete, fork and end. "Measured" is a fact of an H200 with driver
// 580.159.04.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>

#include "test/gpu/driver_under_test.h"

namespace mgpu::fake_gpu {
namespace {

TEST_F(DriverTest, HasTheCardsOfTheMachine) {
  in_process([] {
    const Driver driver;
    int count = 0;
    EXPECT_EQ(driver.call("cuDeviceGetCount", &count), kSuccess);
    EXPECT_EQ(count, 2);
    char text[32] = "";
    EXPECT_EQ(driver.call("cuDeviceGetName", &text[0], 32, 1), kSuccess);
    EXPECT_STREQ(text, "NVIDIA H200");
    unsigned char uuid[16] = {};
    EXPECT_EQ(driver.call("cuDeviceGetUuid_v2", &uuid[0], 1), kSuccess);
    EXPECT_EQ(uuid[0], 0x6D);
    EXPECT_EQ(uuid[15], 2);
    int value = 0;
    EXPECT_EQ(driver.call("cuDeviceGetAttribute", &value, 16, 0), kSuccess);
    EXPECT_EQ(value, 132);
    EXPECT_EQ(driver.call("cuDeviceGetPCIBusId", &text[0], 32, 1), kSuccess);
    EXPECT_STREQ(text, "0000:02:00.0");
    EXPECT_EQ(driver.call("cuDeviceGetByPCIBusId", &value, &text[0]), kSuccess);
    EXPECT_EQ(value, 1);
    EXPECT_EQ(driver.call("cuDeviceGet", &value, 2), kInvalidDevice);
    EXPECT_EQ(driver.call("cuDriverGetVersion", &value), kSuccess);
    EXPECT_EQ(value, 13'000);
    const char* name = nullptr;
    EXPECT_EQ(driver.call("cuGetErrorName", kOutOfMemory, &name), kSuccess);
    EXPECT_STREQ(name, "CUDA_ERROR_OUT_OF_MEMORY");
  });
}

TEST_F(DriverTest, NeedsAMachineAndCuInit) {
  in_process([] {
    const Driver driver(false);
    Pointer pointer = 0;
    EXPECT_EQ(driver.call("cuMemAlloc_v2", &pointer, std::size_t{1}), kNotInitialized);
    EXPECT_EQ(driver.call("cuTexObjectCreate"), kNotInitialized);
    EXPECT_EQ(driver.call("cuInit", 1U), kInvalidValue);
    ::unsetenv("MGPU_FAKE_GPU");
    EXPECT_EQ(driver.call("cuInit", 0U), kNoDevice);
    ::setenv("MGPU_FAKE_GPU", "/nowhere", 1);
    EXPECT_EQ(driver.call("cuInit", 0U), kNoDevice);
  });
  in_process([] {
    const Driver driver;
    EXPECT_EQ(driver.call("cuCtxSetCurrent", Handle{}), kSuccess);
    Pointer pointer = 0;
    EXPECT_EQ(driver.call("cuMemAlloc_v2", &pointer, std::size_t{1}), kInvalidContext);
    EXPECT_EQ(driver.call("cuTexObjectCreate"), kNotSupported);
  });
}

TEST_F(DriverTest, TwoProcessesCompeteForACard) {
  ChildProcess other([](const ChildProcess::Pause& pause) {
    const Driver driver;
    EXPECT_NE(driver.allocate(100'000 * kMiB), 0U);
    pause();
    EXPECT_EQ(driver.call("cuDevicePrimaryCtxRelease_v2", 0), kSuccess);
    pause();
  });
  ASSERT_TRUE(other.wait_for_pause());
  in_process([&] {
    const Driver driver;
    // Two contexts of 523.5625 MiB.
    EXPECT_EQ(driver.free() / kMiB, 42'105U);
    EXPECT_EQ(driver.allocate(42'106 * kMiB), 0U);
    other.go_on();
    other.wait_for_pause();
    EXPECT_NE(driver.allocate(142'000 * kMiB), 0U);
  });
  other.go_on();
  EXPECT_EQ(other.wait(), 0);
}

// Measured: all of it is free when waitpid returns.
TEST_F(DriverTest, TheMemoryOfAKilledProcessIsFreeAtOnce) {
  in_process([] {
    const std::uint64_t before = [] {
      const Driver driver;
      return driver.free();
    }();
    const Driver driver;
    std::mt19937 random(33);
    for (int round = 0; round < 20; ++round) {
      ChildProcess other([](const ChildProcess::Pause& pause) {
        ::execl("/proc/self/exe", "holder", "--gtest_filter=Holder.*",
                "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr);
        pause();
      });
      ::usleep(static_cast<useconds_t>(random() % 150'000));
      other.kill();
      ASSERT_EQ(driver.free(), before) << round;
    }
  });
}

// Run by the test above, in a program of its own; it ends when it is killed.
TEST(Holder, DISABLED_AllocatesUntilItEnds) {
  const Driver driver;
  for (int i = 0; i < 10'000; ++i) {
    const Pointer pointer = driver.allocate(20 * 1024 * kMiB);
    static_cast<void>(driver.allocate(512));
    driver.free_memory(pointer);
  }
}

// Measured, with cuInit as well.
TEST_F(DriverTest, AForkedChildHasNoDriver) {
  in_process([] {
    const Driver driver;
    const pid_t child = ::fork();
    if (child == 0) {
      Pointer pointer = 0;
      Handle context = nullptr;
      const bool refused =
          driver.call("cuMemAlloc_v2", &pointer, std::size_t{1}) == kNotInitialized &&
          driver.call("cuInit", 0U) == kNotInitialized &&
          driver.call("cuCtxGetCurrent", &context) == kNotInitialized &&
          driver.call("cuTexObjectCreate") == kNotInitialized;
      ::_exit(refused ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_NE(driver.allocate(kMiB), 0U);
  });
}

// A child that lives on does not keep the memory of its parent.
TEST_F(DriverTest, AChildOutlivesTheMemoryOfItsParent) {
  int wake[2] = {-1, -1};
  int forked[2] = {-1, -1};
  ASSERT_EQ(::pipe(wake), 0);
  ASSERT_EQ(::pipe(forked), 0);
  ChildProcess parent([&](const ChildProcess::Pause& pause) {
    const Driver driver;
    EXPECT_NE(driver.allocate(1000 * kMiB), 0U);
    if (::fork() == 0) {
      char byte = 0;
      ::close(wake[1]);
      static_cast<void>(!::write(forked[1], &byte, 1));
      static_cast<void>(!::read(wake[0], &byte, 1));
      ::_exit(0);
    }
    char byte = 0;  // until the child has given the file up
    EXPECT_EQ(::read(forked[0], &byte, 1), 1);
    pause();
  });
  ASSERT_TRUE(parent.wait_for_pause());
  parent.kill();
  in_process([] {
    const Driver driver;
    EXPECT_EQ(driver.free() / kMiB, 142'629U);
  });
  for (const int end : {wake[0], wake[1], forked[0], forked[1]}) ::close(end);
}

TEST_F(DriverTest, ContextsAreAStackOfEachThread) {
  in_process([] {
    const Driver driver;
    Handle second = nullptr;
    EXPECT_EQ(driver.call("cuCtxCreate_v2", &second, 0U, 1), kSuccess);
    int device = -1;
    EXPECT_EQ(driver.call("cuCtxGetDevice", &device), kSuccess);
    EXPECT_EQ(device, 1);
    Handle popped = nullptr;
    EXPECT_EQ(driver.call("cuCtxPopCurrent_v2", &popped), kSuccess);
    EXPECT_EQ(popped, second);
    EXPECT_EQ(driver.call("cuCtxPushCurrent_v2", second), kSuccess);
    EXPECT_EQ(driver.call("cuCtxDestroy_v2", second), kSuccess);
    EXPECT_EQ(driver.call("cuCtxGetDevice", &device), kSuccess);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(driver.call("cuCtxSetCurrent", second), kInvalidContext);
    EXPECT_EQ(driver.call("cuDevicePrimaryCtxRelease_v2", 0), kSuccess);
    Pointer pointer = 0;
    EXPECT_EQ(driver.call("cuMemAlloc_v2", &pointer, std::size_t{1}), kContextIsDestroyed);
  });
}

}  // namespace
}  // namespace mgpu::fake_gpu
