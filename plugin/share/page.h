// The two files of a container and a card: `limits`, which the container can only read, and
// `usage`, where its processes keep account of the memory that they have reserved (account.h). The
// plugin makes them before the container starts. This code is part of the library in containers: it
// needs only a C library.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

// Where the pages are in a container is decided when its libraries are built, so that no variable
// of a program moves it. Only the libraries of the tests have another folder.
#ifndef MGPU_SHARE_FOLDER
#define MGPU_SHARE_FOLDER "/run/mgpu/share"
#endif

namespace mgpu::share {

// Amounts are counted in units, rounded up. 32 bits of them are 2 TiB.
constexpr std::uint64_t kUnit = 512;
constexpr std::uint64_t kUnitsMax = 0xffffffff;
constexpr unsigned kSlots = 1024;
constexpr unsigned kNoSlot = 0xffff;
constexpr std::uint32_t kPageVersion = 1;
constexpr char kMagic[8] = {'M', 'G', 'P', 'U', 'P', 'A', 'G', 'E'};

constexpr std::uint64_t units_of(std::uint64_t bytes) {
  return bytes / kUnit + (bytes % kUnit != 0 ? 1 : 0);
}

struct PageHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t size;  // of the page
  std::uint8_t uuid[16];
};

struct LimitsPage {
  PageHeader header;
  std::atomic<std::uint64_t> limit;    // units; a change is one store
  std::atomic<std::uint64_t> context;  // units that a context of the driver reserves
  // Units that the card shows as used and no process has reserved. They count against the limit.
  std::atomic<std::uint64_t> overhead;
};

struct UsagePage {
  PageHeader header;
  alignas(64) std::uint64_t operation[2];                // see Operation in account.h
  alignas(64) std::atomic<std::uint64_t> slots[kSlots];  // see Slot in account.h
};
static_assert(offsetof(UsagePage, operation) == 64 && offsetof(UsagePage, slots) == 128 &&
              sizeof(UsagePage) == 128 + kSlots * 8);

struct PageValues {
  std::uint8_t uuid[16] = {};
  std::uint64_t limit_bytes = 0;
  std::uint64_t context_bytes = 0;
};

// Functions that may fail return why as a sentence without the path, or null.
using Failure = const char*;

constexpr std::size_t kPathMax = 256;
struct PagePaths {
  explicit PagePaths(const char* folder);
  char limits[kPathMax];
  char usage[kPathMax];
};

// Makes both files in `folder`, which exists. Pages that are complete are not changed, and those of
// a call that was interrupted are made anew. One caller at a time.
Failure make_pages(const char* folder, const PageValues& values);

// Changes LimitsPage::overhead of pages that are there.
Failure set_overhead(const char* folder, std::uint64_t bytes);

// Maps the file and compares its header. The mapping stays until the process ends.
Failure map_limits(const char* path, const std::uint8_t (&uuid)[16], const LimitsPage** page);
Failure check_limits(const LimitsPage& page, const std::uint8_t (&uuid)[16]);
Failure check_usage(const UsagePage& page, const std::uint8_t (&uuid)[16]);

// The name of a folder of pages: "GPU-" and the UUID as NVML writes it, 40 characters and a zero.
void write_uuid(const std::uint8_t (&uuid)[16], char (&text)[41]);
// The opposite, with "GPU-", "MIG-" and without. False: it is no UUID.
bool read_uuid(const char* text, std::uint8_t (&uuid)[16]);

}  // namespace mgpu::share
