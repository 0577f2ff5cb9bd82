// The fake libcuda.so.1 as a program uses it, and a machine for it.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "test/gpu/child_process.h"
#include "test/gpu/driver/errors.h"
#include "test/gpu/scenario.h"
#include "test/support/scratch_folder.h"

namespace mgpu::fake_gpu {

using Pointer = std::uint64_t;
using Handle = void*;

// In a process of its own, because a process has one driver.
class Driver {
 public:
  // With a current primary context on card 0, unless `begin` is false.
  explicit Driver(bool begin = true) {
    const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    library_ = ::dlopen((folder / "fake-gpu/libcuda.so.1").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) ADD_FAILURE() << ::dlerror();
    if (!begin || library_ == nullptr) return;
    EXPECT_EQ(call("cuInit", 0U), kSuccess);
    EXPECT_EQ(call("cuDevicePrimaryCtxRetain", &context, 0), kSuccess);
    EXPECT_EQ(call("cuCtxSetCurrent", context), kSuccess);
  }

  void* find(const std::string& name) const { return ::dlsym(library_, name.c_str()); }

  // REQUIRES: the arguments have the types of the function.
  template <class... Arguments>
  int call(const std::string& name, Arguments... arguments) const {
    auto* const function = reinterpret_cast<int (*)(Arguments...)>(find(name));
    if (function == nullptr) {
      ADD_FAILURE() << "no function " << name;
      return -1;
    }
    return function(arguments...);
  }

  std::uint64_t free() const {
    std::size_t free = 0;
    std::size_t total = 0;
    EXPECT_EQ(call("cuMemGetInfo_v2", &free, &total), kSuccess);
    return free;
  }
  // 0 if there is no memory.
  Pointer allocate(std::uint64_t bytes) const {
    Pointer pointer = 0;
    const int code = call("cuMemAlloc_v2", &pointer, std::size_t{bytes});
    EXPECT_EQ(code, pointer != 0 ? kSuccess : kOutOfMemory);
    return pointer;
  }
  int free_memory(Pointer pointer) const { return call("cuMemFree_v2", pointer); }
  void synchronize() const { EXPECT_EQ(call("cuCtxSynchronize"), kSuccess); }

  Handle context = nullptr;

 private:
  void* library_ = nullptr;
};

// MiB that `run` takes.
template <class Run>
double taken(const Driver& driver, Run run) {
  const auto before = static_cast<double>(driver.free());
  run();
  return (before - static_cast<double>(driver.free())) / static_cast<double>(kMiB);
}

// A machine with two H200s that programs find.
class DriverTest : public testing::Test {
 protected:
  DriverTest() {
    EXPECT_TRUE(
        create_machine("cards: [{uuid: GPU-6d677075-0000-4000-8000-000000000001},"
                       "        {uuid: GPU-6d677075-0000-4000-8000-000000000002}]",
                       machine()));
    ::setenv("MGPU_FAKE_GPU", machine().c_str(), 1);
  }
  ~DriverTest() override { ::unsetenv("MGPU_FAKE_GPU"); }

  std::string machine() const { return folder_.path("machine"); }

  const test::ScratchFolder folder_;
};

}  // namespace mgpu::fake_gpu
