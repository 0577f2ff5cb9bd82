// What allocations take. "Measured" is a fact of an H200 with driver 580.159.04.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "test/gpu/driver_under_test.h"
#include "test/gpu/machine.h"

namespace mgpu::fake_gpu {
namespace {

using testing::ElementsAre;
using testing::Field;

std::vector<ProcessUse> list(const std::string& path) {
  std::string why;
  return Machine::open(path, why)->processes(0);
}

// Measured.
TEST_F(DriverTest, AContextTakesWhatNvmlShowsAndSomeMore) {
  in_process([&] {
    const Driver driver;
    EXPECT_EQ(driver.free(), 142'629 * kMiB + kMiB / 8);
    EXPECT_THAT(list(machine()), ElementsAre(Field(&ProcessUse::bytes, 518 * kMiB)));
    Handle second = nullptr;
    EXPECT_EQ(taken(driver, [&] { driver.call("cuCtxCreate_v2", &second, 0U, 0); }), 523.5625);
    EXPECT_EQ(taken(driver, [&] { driver.call("cuCtxSetCurrent", driver.context); }), 0);
    EXPECT_EQ(taken(driver, [&] { driver.call("cuCtxDestroy_v2", second); }), -523.5625);
    std::size_t total = 0;
    EXPECT_EQ(driver.call("cuDeviceTotalMem_v2", &total, 0), kSuccess);
    EXPECT_EQ(total, 143'155 * kMiB + 960 * 1024);
  });
}

// Measured: bytes, and MiB that they take.
TEST_F(DriverTest, AllocationsTakeWholePages) {
  in_process([] {
    const Driver driver;
    const std::pair<std::uint64_t, double> cases[] = {
        {1, 2},        {4096, 2},         {kMiB - 1, 2}, {kMiB, 2},       {kMiB + 1, 2},
        {2 * kMiB, 2}, {2 * kMiB + 1, 4}, {3 * kMiB, 4}, {10 * kMiB, 10}, {34'603'013, 34},
    };
    for (const auto& [bytes, mib] : cases) {
      Pointer pointer = 0;
      EXPECT_EQ(taken(driver, [&] { pointer = driver.allocate(bytes); }), mib) << bytes;
      EXPECT_EQ(taken(driver, [&] { driver.free_memory(pointer); }), -mib) << bytes;
    }
    EXPECT_EQ(driver.call("cuMemAlloc_v2", new Pointer, std::size_t{0}), kInvalidValue);
    EXPECT_EQ(driver.free_memory(0), kSuccess);
    EXPECT_EQ(driver.free_memory(12'345), kInvalidValue);
    const Pointer inside = driver.allocate(4096) + 512;
    EXPECT_EQ(driver.free_memory(inside), kInvalidValue);
    EXPECT_EQ(driver.allocate(200 * 1024 * kMiB), 0U);
    EXPECT_EQ(driver.allocate(~std::uint64_t{0}), 0U);
  });
}

// Measured: 4,096 pieces of 512 bytes, two of 700 KiB, and one of 1,300 KiB.
TEST_F(DriverTest, SmallAllocationsShareAPage) {
  in_process([] {
    const Driver driver;
    const auto many = [&](int count, std::uint64_t bytes) {
      return taken(driver, [&] {
        for (int i = 0; i < count; ++i) EXPECT_NE(driver.allocate(bytes), 0U);
      });
    };
    EXPECT_EQ(many(4096, 512), 2);
    EXPECT_EQ(many(1, 1), 2);
    EXPECT_EQ(many(1, 700 * 1024), 0) << "beside the byte";
    EXPECT_EQ(many(1, 700 * 1024), 0);
    EXPECT_EQ(many(2, 700 * 1024), 2);
    EXPECT_EQ(many(2, 1300 * 1024), 4);
  });
}

// Measured: 1000 bytes are a pitch of 1024.
TEST_F(DriverTest, APitchIsAMultipleOf512) {
  in_process([] {
    const Driver driver;
    Pointer pointer = 0;
    std::size_t pitch = 0;
    EXPECT_EQ(taken(driver,
                    [&] {
                      EXPECT_EQ(driver.call("cuMemAllocPitch_v2", &pointer, &pitch,
                                            std::size_t{1000}, std::size_t{10'000}, 4U),
                                kSuccess);
                    }),
              10);
    EXPECT_EQ(pitch, 1024U);
  });
}

// Measured: nothing until the card touches it, and NVML's list of processes never shows it.
TEST_F(DriverTest, ManagedMemoryIsTakenWhenTheCardTouchesIt) {
  in_process([&] {
    const Driver driver;
    Pointer pointer = 0;
    const std::size_t bytes = 64 * kMiB;
    EXPECT_EQ(taken(driver, [&] { driver.call("cuMemAllocManaged", &pointer, bytes, 1U); }), 0);
    *reinterpret_cast<char*>(pointer) = 'x';
    EXPECT_EQ(taken(driver, [&] { driver.call("cuMemsetD8_v2", pointer, char{1}, bytes); }), 64);
    EXPECT_EQ(*reinterpret_cast<char*>(pointer), 1);
    EXPECT_THAT(list(machine()), ElementsAre(Field(&ProcessUse::bytes, 518 * kMiB)));
    const auto prefetch = [&](int type) {
      const struct {
        int type;
        int id;
      } location{type, 0};
      return taken(driver, [&] {
        EXPECT_EQ(driver.call("cuMemPrefetchAsync_v2", pointer, bytes, location, 0U, Handle{}),
                  kSuccess);
      });
    };
    EXPECT_EQ(prefetch(2), -64) << "to the host";
    EXPECT_EQ(prefetch(1), 64) << "to the card";
    EXPECT_EQ(taken(driver, [&] { driver.free_memory(pointer); }), -64);
    void* host = nullptr;
    EXPECT_EQ(taken(driver, [&] { driver.call("cuMemHostAlloc", &host, bytes, 0U); }), 0);
    std::memset(host, 1, bytes);
    EXPECT_EQ(driver.free_memory(reinterpret_cast<Pointer>(host)), kInvalidValue);
    EXPECT_EQ(driver.call("cuMemFreeHost", host), kSuccess);
  });
}

// Measured: 132 multiprocessors x 2,048 threads x 15 KiB at once; other limits take nothing.
TEST_F(DriverTest, StacksAreTakenWhenTheirLimitIsSet) {
  in_process([] {
    const Driver driver;
    const auto set = [&](int limit, std::size_t value) {
      return taken(driver, [&] { driver.call("cuCtxSetLimit", limit, value); });
    };
    EXPECT_EQ(set(2, 512 * kMiB), 0);
    EXPECT_EQ(set(1, 64 * kMiB), 0);
    EXPECT_EQ(set(0, 16'384), 3960);
    std::size_t value = 0;
    EXPECT_EQ(driver.call("cuCtxGetLimit", &value, 0), kSuccess);
    EXPECT_EQ(value, 16'384U);
    EXPECT_NE(driver.allocate(driver.free() / kMiB / 2 * 2 * kMiB - 16 * kMiB), 0U);
    EXPECT_EQ(driver.call("cuCtxSetLimit", 0, std::size_t{65'536}), kOutOfMemory);
  });
}

// Measured: a global of 16 bytes takes a page, one of 1 MiB has room in it, 100 MiB are its own.
TEST_F(DriverTest, GlobalsOfModulesTakeMemory) {
  in_process([] {
    const Driver driver;
    const auto load = [&](std::uint64_t bytes) {
      const std::string text =
          ".version 6.3\n.target sm_70\n.address_size 64\n.visible .global "
          ".align 4 .b8 g[" +
          std::to_string(bytes) + "];\n.visible .entry k() { ld.global.f32 %f, [%r]; ret; }\n";
      Handle module = nullptr;
      EXPECT_EQ(driver.call("cuModuleLoadData", &module, text.c_str()), kSuccess);
      return module;
    };
    Handle modules[3] = {};
    EXPECT_EQ(taken(driver, [&] { modules[0] = load(16); }), 2);
    EXPECT_EQ(taken(driver, [&] { modules[1] = load(kMiB); }), 0);
    EXPECT_EQ(taken(driver, [&] { modules[2] = load(100 * kMiB); }), 100);
    Handle function = nullptr;
    EXPECT_EQ(driver.call("cuModuleGetFunction", &function, modules[0], "k"), kSuccess);
    EXPECT_EQ(driver.call("cuLaunchKernel", function, 1U, 1U, 1U, 1U, 1U, 1U, 0U, Handle{},
                          Handle{}, Handle{}),
              kSuccess);
    EXPECT_EQ(driver.call("cuModuleGetFunction", &function, modules[0], "q"), kNotFound);
    Pointer global = 0;
    std::size_t bytes = 0;
    EXPECT_EQ(driver.call("cuModuleGetGlobal_v2", &global, &bytes, modules[2], "g"), kSuccess);
    EXPECT_EQ(bytes, 100 * kMiB);
    const auto unload = [&](Handle module) {
      return taken(driver, [&] { driver.call("cuModuleUnload", module); });
    };
    EXPECT_EQ(unload(modules[0]), 0);
    EXPECT_EQ(unload(modules[1]), -2);
    EXPECT_EQ(unload(modules[2]), -100);
    EXPECT_EQ(driver.call("cuModuleLoadData", &modules[0], "no module"), kInvalidImage);
  });
}

// Measured.
TEST_F(DriverTest, KernelsWithLocalMemoryRaiseTheStackLimit) {
  in_process([] {
    const Driver driver;
    const std::string text =
        ".version 6.3\n.target sm_70\n.address_size 64\n.visible .entry small() { ret; }\n"
        ".visible .entry large() { .local .align 4 .b8 a[60000]; .local .align 8 .f64 b[692]; ret; "
        "}";
    Handle module = nullptr;
    Handle functions[2] = {};
    EXPECT_EQ(driver.call("cuModuleLoadData", &module, text.c_str()), kSuccess);
    EXPECT_EQ(driver.call("cuModuleGetFunction", &functions[0], module, "small"), kSuccess);
    EXPECT_EQ(driver.call("cuModuleGetFunction", &functions[1], module, "large"), kSuccess);
    int bytes = 0;
    EXPECT_EQ(driver.call("cuFuncGetAttribute", &bytes, 3, functions[1]), kSuccess);
    EXPECT_EQ(bytes, 65'536);
    const auto launch = [&](Handle function) {
      return taken(driver, [&] {
        EXPECT_EQ(driver.call("cuLaunchKernel", function, 1U, 1U, 1U, 1U, 1U, 1U, 0U, Handle{},
                              Handle{}, Handle{}),
                  kSuccess);
      });
    };
    EXPECT_EQ(launch(functions[0]), 0);
    EXPECT_EQ(launch(functions[1]), 16'632);
    EXPECT_EQ(launch(functions[1]), 0);
    std::size_t limit = 0;
    EXPECT_EQ(driver.call("cuCtxGetLimit", &limit, 0), kSuccess);
    EXPECT_EQ(limit, 65'536U);
    EXPECT_EQ(taken(driver, [&] { driver.call("cuCtxSetLimit", 0, std::size_t{1024}); }), -16'632);
  });
}

// Measured.
TEST_F(DriverTest, StreamsTakeMemoryInProportion) {
  in_process([] {
    const Driver driver;
    const auto create = [&](int count) {
      return taken(driver, [&] {
        for (int i = 0; i < count; ++i) {
          Handle stream = nullptr;
          EXPECT_EQ(driver.call("cuStreamCreate", &stream, 0U), kSuccess);
        }
      });
    };
    EXPECT_EQ(create(1), 0);
    EXPECT_EQ(create(63), 34);
    EXPECT_EQ(create(64), 36);
    EXPECT_EQ(create(1000), 546);
  });
}

TEST_F(DriverTest, CopiesKeepTheData) {
  in_process([] {
    const Driver driver;
    const Pointer one = driver.allocate(4096);
    const Pointer two = driver.allocate(8 * kMiB);
    const std::string text = "some data";
    std::string back(text.size(), '.');
    EXPECT_EQ(driver.call("cuMemcpyHtoD_v2", one + 512, text.data(), text.size()), kSuccess);
    EXPECT_EQ(driver.call("cuMemcpyDtoD_v2", two + 7, one + 512, text.size()), kSuccess);
    EXPECT_EQ(driver.call("cuMemcpyDtoHAsync_v2", back.data(), two + 7, text.size(), Handle{}),
              kSuccess);
    EXPECT_EQ(back, text);
    EXPECT_EQ(driver.call("cuMemcpyHtoD_v2", one, text.data(), std::size_t{4097}), kInvalidValue);
    EXPECT_EQ(driver.call("cuMemsetD32_v2", one, 0x01020304U, std::size_t{2}), kSuccess);
    std::uint64_t value = 0;
    EXPECT_EQ(driver.call("cuMemcpyDtoH_v2", static_cast<void*>(&value), one, sizeof value),
              kSuccess);
    EXPECT_EQ(value, 0x0102030401020304U);
  });
}

TEST_F(DriverTest, PointersHaveAttributes) {
  in_process([] {
    const Driver driver;
    const Pointer pointer = driver.allocate(4096);
    unsigned type = 0;
    Pointer begin = 0;
    EXPECT_EQ(driver.call("cuPointerGetAttribute", static_cast<void*>(&type), 2, pointer + 8),
              kSuccess);
    EXPECT_EQ(driver.call("cuPointerGetAttribute", static_cast<void*>(&begin), 11, pointer + 8),
              kSuccess);
    EXPECT_EQ(type, 2U);
    EXPECT_EQ(begin, pointer);
    EXPECT_EQ(driver.call("cuPointerGetAttribute", static_cast<void*>(&type), 2, Pointer{8}),
              kInvalidValue);
    std::size_t bytes = 0;
    EXPECT_EQ(driver.call("cuMemGetAddressRange_v2", &begin, &bytes, pointer + 8), kSuccess);
    EXPECT_EQ(bytes, 4096U);
  });
}

}  // namespace
}  // namespace mgpu::fake_gpu
