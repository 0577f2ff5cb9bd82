// Pools of memory for allocations in the order of a stream.
#pragma once

#include <cstdint>
#include <vector>

#include "test/gpu/driver/memory.h"

namespace mgpu::fake_gpu {

// Pools grow by this.
inline constexpr std::uint64_t kPoolUnit = 32 * kMiB;

struct Pool {
  int card = 0;
  std::uint64_t most = 0;  // bytes that it may reserve; 0 is no limit
  std::uint64_t threshold = 0;
  std::uint64_t used = 0;
  std::uint64_t used_high = 0;
  std::uint64_t reserved_high = 0;
  std::vector<BlockPointer> blocks{};
  bool is_default = false;
  bool destroyed = false;

  std::uint64_t reserved() const { return blocks.size() * kPoolUnit; }
};

// After the allocations of a stream or context are synchronized: what cuMemFreeAsync has freed of
// cuMemAlloc ends, and the pools give unused memory back, down to their thresholds.
void settle_pools(int card);
// All unused memory of this process's pools on a card.
void give_unused_back(int card);
void return_to_pool(Pool& pool, std::uint64_t bytes);

}  // namespace mgpu::fake_gpu
