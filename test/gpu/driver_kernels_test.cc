// The kernels of bench/gpu, and faults of functions. test/bench/gpu/trial_test.py has those of MPS
// and of limits.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>

#include "bench/gpu/cuda/kernels.h"
#include "test/gpu/driver_under_test.h"

namespace mgpu::fake_gpu {
namespace {

constexpr unsigned kCount = 100;
constexpr std::size_t kBytes = kCount * sizeof(float);

// The result of a launch with one block for each 50 numbers.
int launch(const Driver& driver, const char* name, void** arguments, unsigned blocks) {
  Handle module = nullptr;
  Handle kernel = nullptr;
  EXPECT_EQ(driver.call("cuModuleLoadData", &module, gpu_trial::cuda::kKernels), kSuccess);
  EXPECT_EQ(driver.call("cuModuleGetFunction", &kernel, module, name), kSuccess);
  return driver.call("cuLaunchKernel", kernel, blocks, 1U, 1U, kCount / 2, 1U, 1U, 0U, Handle{},
                     arguments, static_cast<void**>(nullptr));
}

// The sum of 2 and 3 at both ends of a vector.
std::array<float, 2> sums(const Driver& driver) {
  Pointer vectors[3] = {};
  for (unsigned i = 0; i < 3; ++i) {
    vectors[i] = driver.allocate(kBytes);
    std::array<float, kCount> values{};
    values.fill(static_cast<float>(i + 2));
    const auto* const from = static_cast<const void*>(values.data());
    EXPECT_EQ(driver.call("cuMemcpyHtoD_v2", vectors[i], from, kBytes), kSuccess);
  }
  unsigned count = kCount;
  void* arguments[] = {&vectors[0], &vectors[1], &vectors[2], &count};
  EXPECT_EQ(launch(driver, "vector_add", arguments, 1), kSuccess);
  std::array<float, kCount> read{};
  EXPECT_EQ(driver.call("cuMemcpyDtoH_v2", static_cast<void*>(read.data()), vectors[2], kBytes),
            kSuccess);
  return {read.front(), read.back()};
}

TEST_F(DriverTest, AddsVectorsAsFarAsItsThreadsReach) {
  in_process([] {
    const Driver driver;
    const std::array<float, 2> expected = {5, 4};
    EXPECT_EQ(sums(driver), expected);
  });
  in_process([] {
    ::setenv("MGPU_FAKE_GPU_FAULT", "wrong-sum", 1);
    EXPECT_NE(sums(Driver())[0], 5);
  });
}

TEST_F(DriverTest, FailsForGoodAfterAWrongAddress) {
  in_process([] {
    const Driver driver;
    Pointer vectors[3] = {driver.allocate(kBytes), driver.allocate(kBytes), 4096};
    unsigned count = kCount;
    void* arguments[] = {&vectors[0], &vectors[1], &vectors[2], &count};
    EXPECT_EQ(launch(driver, "vector_add", arguments, 2), kSuccess);
    EXPECT_EQ(driver.call("cuCtxSynchronize"), kIllegalAddress);
    EXPECT_EQ(driver.call("cuMemFree_v2", vectors[0]), kIllegalAddress);
  });
}

TEST_F(DriverTest, SpinsForItsIterations) {
  in_process([] {
    const Driver driver;
    Pointer out = 0;
    unsigned iterations = 40'000;
    void* arguments[] = {&out, &iterations};
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(launch(driver, "spin", arguments, 8'448), kSuccess);
    driver.synchronize();
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(19));
  });
}

TEST_F(DriverTest, HasFaultsOfFunctions) {
  in_process([] {
    ::setenv("MGPU_FAKE_GPU_FAULT", "fail cuMemAlloc 46", 1);
    const Driver driver;
    Pointer pointer = 0;
    EXPECT_EQ(driver.call("cuMemAlloc_v2", &pointer, std::size_t{1}), kDeviceUnavailable);
    EXPECT_EQ(driver.call("cuMemAllocManaged", &pointer, std::size_t{1}, 1U), kSuccess);
  });
  ChildProcess hung([](const ChildProcess::Pause&) {
    ::setenv("MGPU_FAKE_GPU_FAULT", "hang cuLaunchKernel", 1);
    ::alarm(2);
    sums(Driver());
  });
  EXPECT_EQ(hung.wait(), -1) << "it has returned";
}

}  // namespace
}  // namespace mgpu::fake_gpu
