#include "bench/gpu/nvml_more.h"

#include <gtest/gtest.h>

#include <cstring>

#include "plugin/cards/nvml/nvml_abi.h"

namespace mgpu::gpu_trial {
namespace {

// A list of a driver whose entries have this size.
RawProcesses list_of(std::size_t entry_bytes, unsigned count) {
  RawProcesses list;
  list.count = count;
  list.bytes.assign(64 * 64, kRawProcessFill);
  for (unsigned i = 0; i < count; ++i) {
    const plugin::nvml::ProcessInfoV1 entry{100 + i, (1 + i) << 20};
    unsigned char* const at = list.bytes.data() + i * entry_bytes;
    std::memset(at, 0, entry_bytes);
    std::memcpy(at, &entry, sizeof entry);
  }
  return list;
}

TEST(RawProcesses, ShowTheSizeOfTheirEntries) {
  for (const std::size_t size : {16u, 24u, 32u}) {
    for (const unsigned count : {2u, 3u, 64u}) {
      EXPECT_EQ(entry_bytes_of(list_of(size, count)), size) << count;
    }
  }
}

// The last bytes of an entry may be padding, so that one entry does not show its size.
TEST(RawProcesses, ShowNoSizeIfThereAreTooFewEntries) {
  EXPECT_EQ(entry_bytes_of(list_of(24, 0)), std::nullopt);
  EXPECT_EQ(entry_bytes_of(list_of(24, 1)), std::nullopt);
  EXPECT_EQ(entry_bytes_of(list_of(40, 3)), std::nullopt);
}

TEST(RawProcesses, AreReadWithAnyGivenSize) {
  const auto entries = entries_of(list_of(32, 3), 32);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[2].pid, 102u);
  EXPECT_EQ(entries[2].used_bytes, 3u << 20);
  // The device plugin reads entries of 24 bytes.
  EXPECT_NE(entries_of(list_of(32, 3), 24)[1].pid, 101u);
}

}  // namespace
}  // namespace mgpu::gpu_trial
