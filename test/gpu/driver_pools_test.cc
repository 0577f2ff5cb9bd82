// Pools of memory in the order of a stream. All of this is measured on an H200 with driver
// 580.159.04.
#include <gtest/gtest.h>

#include <cstring>

#include "test/gpu/driver_under_test.h"

namespace mgpu::fake_gpu {
namespace {

constexpr int kThreshold = 4;
constexpr int kReserved = 5;
constexpr int kReservedHigh = 6;
constexpr int kUsed = 7;

struct PoolProperties {
  int allocation_type = 1;
  int handle_types = 0;
  int location_type = 1;
  int location = 0;
  void* security = nullptr;
  std::size_t most = 0;
  unsigned char other[56] = {};
};

struct Pools {
  const Driver driver{};
  Handle pool = nullptr;

  Pools() { EXPECT_EQ(driver.call("cuDeviceGetDefaultMemPool", &pool, 0), kSuccess); }

  std::uint64_t get(Handle from, int attribute) const {
    std::uint64_t value = 0;
    EXPECT_EQ(driver.call("cuMemPoolGetAttribute", from, attribute, static_cast<void*>(&value)),
              kSuccess);
    return value;
  }
  std::uint64_t reserved() const { return get(pool, kReserved) / kMiB; }
  void keep_all() const {
    std::uint64_t value = std::uint64_t{1} << 63;
    EXPECT_EQ(driver.call("cuMemPoolSetAttribute", pool, kThreshold, static_cast<void*>(&value)),
              kSuccess);
  }
  Handle create(std::size_t most) const {
    PoolProperties properties;
    properties.most = most;
    Handle created = nullptr;
    EXPECT_EQ(driver.call("cuMemPoolCreate", &created, &properties), kSuccess);
    return created;
  }
  Pointer allocate(std::size_t bytes) const {
    Pointer pointer = 0;
    EXPECT_EQ(driver.call("cuMemAllocAsync", &pointer, bytes, Handle{}), kSuccess);
    return pointer;
  }
  void free(Pointer pointer) const {
    EXPECT_EQ(driver.call("cuMemFreeAsync", pointer, Handle{}), kSuccess);
  }
};

TEST_F(DriverTest, APoolGrowsBy32MiB) {
  in_process([] {
    const Pools pools;
    const std::pair<std::uint64_t, double> cases[] = {
        {1, 32}, {kMiB, 0}, {5 * kMiB, 0}, {32 * kMiB, 32}, {33 * kMiB, 32}, {100 * kMiB, 96},
    };
    std::vector<Pointer> all;
    for (const auto& [bytes, mib] : cases) {
      EXPECT_EQ(taken(pools.driver, [&] { all.push_back(pools.allocate(bytes)); }), mib) << bytes;
    }
    EXPECT_EQ(pools.get(pools.pool, kUsed), 171 * kMiB + 1);
    for (const Pointer pointer : all) pools.free(pointer);
    EXPECT_EQ(pools.get(pools.pool, kUsed), 0U);
    EXPECT_EQ(pools.reserved(), 192U);
    EXPECT_EQ(taken(pools.driver, [&] { pools.driver.synchronize(); }), -192);
    EXPECT_EQ(pools.reserved(), 0U);
    EXPECT_EQ(pools.get(pools.pool, kReservedHigh), 192 * kMiB);
  });
}

TEST_F(DriverTest, APoolKeepsWhatItsThresholdSays) {
  in_process([] {
    const Pools pools;
    pools.keep_all();
    const std::uint64_t before = pools.driver.free();
    pools.free(pools.allocate(40 * kMiB));
    pools.driver.synchronize();
    EXPECT_EQ(pools.reserved(), 64U);
    EXPECT_EQ(before - pools.driver.free(), 64 * kMiB);
    EXPECT_EQ(pools.driver.call("cuMemPoolTrimTo", pools.pool, std::size_t{0}), kSuccess);
    EXPECT_EQ(pools.driver.free(), before);
  });
}

TEST_F(DriverTest, OthersTakeTheUnusedMemoryOfAPool) {
  in_process([] {
    const Pools pools;
    pools.keep_all();
    pools.free(pools.allocate(20 * 1024 * kMiB));
    pools.driver.synchronize();
    const std::uint64_t more = pools.driver.free() / kMiB / 2 * 2 * kMiB + 10 * 1024 * kMiB;
    const Pointer pointer = pools.driver.allocate(more);
    EXPECT_NE(pointer, 0U);
    EXPECT_EQ(pools.reserved(), 0U);
    EXPECT_EQ(pools.driver.free_memory(pointer), kSuccess);
    pools.free(pools.allocate(20 * 1024 * kMiB));
    pools.driver.synchronize();
    Pointer other = 0;
    EXPECT_EQ(pools.driver.call("cuMemAllocFromPoolAsync", &other, std::size_t{more},
                                pools.create(0), Handle{}),
              kSuccess);
    EXPECT_EQ(pools.reserved(), 0U);
  });
}

TEST_F(DriverTest, APoolHasALargestSize) {
  in_process([] {
    const Pools pools;
    Pointer pointer = 0;
    Handle small = nullptr;
    EXPECT_EQ(taken(pools.driver, [&] { small = pools.create(64 * kMiB); }), 0);
    EXPECT_EQ(pools.driver.call("cuMemAllocFromPoolAsync", &pointer, std::size_t{100 * kMiB}, small,
                                Handle{}),
              kOutOfMemory);
    EXPECT_EQ(pools.driver.call("cuMemAllocFromPoolAsync", &pointer, std::size_t{60 * kMiB}, small,
                                Handle{}),
              kSuccess);
    EXPECT_EQ(pools.driver.call("cuMemPoolDestroy", small), kSuccess);
    EXPECT_EQ(taken(pools.driver, [&] { pools.free(pointer); }), -64) << "with its pool";
    EXPECT_EQ(
        pools.driver.call("cuMemAllocAsync", &pointer, std::size_t{200 * 1024 * kMiB}, Handle{}),
        kOutOfMemory);
  });
}

// Measured.
TEST_F(DriverTest, WhatCuMemAllocTookIsFreedInTheOrderOfAStream) {
  in_process([] {
    const Driver driver;
    const Pointer pointer = driver.allocate(300 * kMiB);
    EXPECT_EQ(taken(driver,
                    [&] {
                      EXPECT_EQ(driver.call("cuMemFreeAsync", pointer, Handle{}), kSuccess);
                      EXPECT_EQ(driver.free_memory(pointer), kInvalidValue);
                    }),
              0);
    EXPECT_EQ(taken(driver, [&] { driver.synchronize(); }), -300);
    EXPECT_EQ(driver.call("cuMemFreeAsync", driver.allocate(kMiB), Handle{}), kSuccess);
    EXPECT_EQ(driver.call("cuDevicePrimaryCtxReset_v2", 0), kSuccess);
  });
}

}  // namespace
}  // namespace mgpu::fake_gpu
