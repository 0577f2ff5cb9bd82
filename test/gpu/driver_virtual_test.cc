// Virtual memory and memory that processes share. All of this is measured on an H200 with driver
// 580.159.04, unless a test says otherwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "test/gpu/driver_under_test.h"
#include "test/gpu/machine.h"
#include "test/gpu/passed_file.h"

namespace mgpu::fake_gpu {
namespace {

using testing::ElementsAre;

struct Properties {
  int type = 1;
  int handle_types = 0;
  int location_type = 1;
  int location = 0;
  void* security = nullptr;
  unsigned char flags[8] = {};
};

constexpr std::uint64_t kNoFlags = 0;

std::uint64_t create(const Driver& driver, std::uint64_t bytes, int handle_types = 0) {
  Properties properties;
  properties.handle_types = handle_types;
  std::uint64_t handle = 0;
  EXPECT_EQ(driver.call("cuMemCreate", &handle, std::size_t{bytes}, &properties, kNoFlags),
            kSuccess);
  return handle;
}

// MiB of each process in NVML's list, beside its context.
std::vector<std::uint64_t> listed(const std::string& path) {
  std::string why;
  std::vector<std::uint64_t> mib;
  for (const ProcessUse& use : Machine::open(path, why)->processes(0)) {
    mib.push_back(use.bytes / kMiB - 518);
  }
  return mib;
}

TEST_F(DriverTest, PhysicalMemoryCountsUntilItsLastReferenceAndMapping) {
  in_process([] {
    const Driver driver;
    std::uint64_t handle = 0;
    std::uint64_t retained = 0;
    Pointer at = 0;
    const std::size_t part = 64 * kMiB;
    EXPECT_EQ(taken(driver, [&] { handle = create(driver, part); }), 64);
    const struct {
      int location_type = 1;
      int location = 0;
      int flags = 3;
    } access;
    EXPECT_EQ(taken(driver,
                    [&] {
                      EXPECT_EQ(driver.call("cuMemAddressReserve", &at, 2 * part, std::size_t{0},
                                            Pointer{0}, kNoFlags),
                                kSuccess);
                      EXPECT_EQ(driver.call("cuMemMap", at, part, std::size_t{0}, handle, kNoFlags),
                                kSuccess);
                      EXPECT_EQ(driver.call("cuMemSetAccess", at, part, &access, std::size_t{1}),
                                kSuccess);
                      EXPECT_EQ(driver.call("cuMemRelease", handle), kSuccess);
                      EXPECT_EQ(driver.call("cuMemRetainAllocationHandle", &retained,
                                            reinterpret_cast<void*>(at)),
                                kSuccess);
                      EXPECT_EQ(driver.call("cuMemMap", at + part, part, std::size_t{0}, retained,
                                            kNoFlags),
                                kSuccess);
                      EXPECT_EQ(driver.call("cuMemRelease", retained), kSuccess);
                      EXPECT_EQ(driver.call("cuMemUnmap", at, part), kSuccess);
                      EXPECT_EQ(driver.call("cuMemUnmap", at + part, part / 2), kInvalidValue);
                      EXPECT_EQ(driver.call("cuMemAddressFree", at, 2 * part), kInvalidValue);
                    }),
              0);
    EXPECT_EQ(taken(driver, [&] { driver.call("cuMemUnmap", at + part, part); }), -64);
    EXPECT_EQ(driver.call("cuMemAddressFree", at, 2 * part), kSuccess);
    EXPECT_EQ(driver.call("cuMemRelease", handle), kInvalidValue);
  });
}

TEST_F(DriverTest, PhysicalMemoryComesInPages) {
  in_process([] {
    const Driver driver;
    const Properties properties;
    for (const int option : {0, 1}) {
      std::size_t bytes = 0;
      EXPECT_EQ(driver.call("cuMemGetAllocationGranularity", &bytes, &properties, option),
                kSuccess);
      EXPECT_EQ(bytes, 2 * kMiB);
    }
    std::uint64_t handle = 0;
    EXPECT_EQ(driver.call("cuMemCreate", &handle, std::size_t{1}, &properties, kNoFlags),
              kInvalidValue);
    EXPECT_EQ(
        driver.call("cuMemCreate", &handle, std::size_t{200 * 1024 * kMiB}, &properties, kNoFlags),
        kOutOfMemory);
  });
}

// Both places show the same data.
TEST_F(DriverTest, OneMemoryCanBeMappedTwice) {
  in_process([] {
    const Driver driver;
    const std::uint64_t handle = create(driver, 2 * kMiB);
    Pointer at = 0;
    driver.call("cuMemAddressReserve", &at, std::size_t{4 * kMiB}, std::size_t{0}, Pointer{0},
                kNoFlags);
    for (const Pointer place : {at, at + 2 * kMiB}) {
      EXPECT_EQ(
          driver.call("cuMemMap", place, std::size_t{2 * kMiB}, std::size_t{0}, handle, kNoFlags),
          kSuccess);
    }
    EXPECT_EQ(driver.call("cuMemMap", at, std::size_t{2 * kMiB}, std::size_t{0}, handle, kNoFlags),
              kInvalidValue);
    int value = 7;
    EXPECT_EQ(driver.call("cuMemcpyHtoD_v2", at, static_cast<const void*>(&value), sizeof value),
              kSuccess);
    value = 0;
    EXPECT_EQ(
        driver.call("cuMemcpyDtoH_v2", static_cast<void*>(&value), at + 2 * kMiB, sizeof value),
        kSuccess);
    EXPECT_EQ(value, 7);
  });
}

struct IpcHandle {
  char bytes[64] = {};
};

TEST_F(DriverTest, MemoryThatIsOpenedByAnotherProcessMovesToItWhenItIsFreed) {
  int handles[2] = {-1, -1};
  ASSERT_EQ(::pipe(handles), 0);
  ChildProcess exporter([&](const ChildProcess::Pause& pause) {
    const Driver driver;
    IpcHandle handle;
    const Pointer pointer = driver.allocate(300 * kMiB);
    EXPECT_EQ(driver.call("cuIpcGetMemHandle", &handle, pointer), kSuccess);
    EXPECT_EQ(::write(handles[1], &handle, sizeof handle), 64);
    Pointer opened = 0;
    EXPECT_EQ(driver.call("cuIpcOpenMemHandle_v2", &opened, handle, 1U), kInvalidContext);
    pause();
    EXPECT_EQ(driver.free_memory(pointer), kSuccess);
    pause();
  });
  ASSERT_TRUE(exporter.wait_for_pause());
  in_process([&] {
    const Driver driver;
    IpcHandle handle;
    Pointer pointer = 0;
    EXPECT_EQ(::read(handles[0], &handle, sizeof handle), 64);
    EXPECT_EQ(taken(driver,
                    [&] {
                      EXPECT_EQ(driver.call("cuIpcOpenMemHandle_v2", &pointer, handle, 1U),
                                kSuccess);
                      EXPECT_THAT(listed(machine()), ElementsAre(300, 0));
                      exporter.go_on();
                      exporter.wait_for_pause();
                      EXPECT_THAT(listed(machine()), ElementsAre(0, 300));
                    }),
              0);
    EXPECT_EQ(driver.free_memory(pointer), kInvalidValue);
    EXPECT_EQ(taken(driver, [&] { driver.call("cuIpcCloseMemHandle", pointer); }), -300);
    EXPECT_EQ(driver.call("cuIpcOpenMemHandle_v2", &pointer, handle, 1U), kInvalidValue);
  });
  exporter.go_on();
  EXPECT_EQ(exporter.wait(), 0);
}

// That the file alone holds the memory is assumed; the rest is measured.
TEST_F(DriverTest, PhysicalMemoryIsExportedAsAFile) {
  int sockets[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets), 0);
  ChildProcess exporter([&](const ChildProcess::Pause& pause) {
    const Driver driver;
    int file = -1;
    const std::uint64_t handle = create(driver, 200 * kMiB, 1);
    EXPECT_EQ(
        driver.call("cuMemExportToShareableHandle", static_cast<void*>(&file), handle, 1, kNoFlags),
        kSuccess);
    EXPECT_TRUE(send_file(sockets[0], file));
    ::close(file);
    pause();
    EXPECT_EQ(driver.call("cuMemRelease", handle), kSuccess);
    const std::uint64_t other = create(driver, 2 * kMiB);
    EXPECT_EQ(
        driver.call("cuMemExportToShareableHandle", static_cast<void*>(&file), other, 1, kNoFlags),
        kInvalidValue);
    EXPECT_EQ(driver.call("cuMemRelease", other), kSuccess);
    pause();
  });
  ASSERT_TRUE(exporter.wait_for_pause());
  in_process([&] {
    const Driver driver;
    const int file = receive_file(sockets[1]);
    std::uint64_t handle = 0;
    EXPECT_EQ(taken(driver,
                    [&] {
                      exporter.go_on();
                      exporter.wait_for_pause();
                      auto* const exported = reinterpret_cast<void*>(std::intptr_t{file});
                      EXPECT_EQ(driver.call("cuMemImportFromShareableHandle", &handle, exported, 1),
                                kSuccess);
                      ::close(file);
                    }),
              0);
    EXPECT_THAT(listed(machine()), ElementsAre(0, 200));
    EXPECT_EQ(taken(driver, [&] { driver.call("cuMemRelease", handle); }), -200);
  });
  exporter.go_on();
  EXPECT_EQ(exporter.wait(), 0);
}

}  // namespace
}  // namespace mgpu::fake_gpu
