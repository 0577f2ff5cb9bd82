#include "test/gpu/driver/pools.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <list>
#include <utility>

#include "test/gpu/driver/faults.h"
#include "test/gpu/driver/process.h"

using namespace mgpu::fake_gpu;

namespace mgpu::fake_gpu {
namespace {

// Default pools are those of the cards, in their order; they are made when they are needed.
std::list<Pool>& pools() {
  static std::list<Pool>& pools = *new std::list<Pool>;
  return pools;
}

Pool& default_pool(int card) {
  for (Pool& pool : pools()) {
    if (pool.is_default && pool.card == card) return pool;
  }
  return pools().emplace_back(Pool{.card = card, .is_default = true});
}

bool is_pool(const Pool* wanted) {
  return std::ranges::any_of(pools(), [&](const Pool& pool) { return &pool == wanted; });
}

// Keeps what is used, and at least `kept` of what is reserved.
void shrink(Pool& pool, std::uint64_t kept) {
  const std::uint64_t least =
      std::max(round_up(pool.used, kPoolUnit), kept / kPoolUnit * kPoolUnit);
  if (pool.reserved() > least) pool.blocks.resize(least / kPoolUnit);
}

// Measured: a pool reserves whole units for the sum of what is used, whatever its pieces are.
bool grow(Pool& pool, std::uint64_t bytes) {
  const std::uint64_t needed = round_up(pool.used + bytes, kPoolUnit);
  if (pool.most != 0 && needed > round_up(pool.most, kPoolUnit)) return false;
  const std::size_t before = pool.blocks.size();
  // What this pool has unused counts for it.
  pool.used += bytes;
  while (pool.reserved() < needed) {
    const BlockPointer block = take_block(pool.card, kPoolUnit);
    if (block == nullptr) break;
    pool.blocks.push_back(block);
  }
  const bool enough = pool.reserved() >= needed;
  if (!enough) {
    pool.used -= bytes;
    pool.blocks.resize(std::min(before, pool.blocks.size()));
  }
  pool.used_high = std::max(pool.used_high, pool.used);
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved());
  return enough;
}

int allocate_from(Context& context, Pool& pool, Pointer* pointer, std::size_t bytes) {
  if (pointer == nullptr || bytes == 0) return kInvalidValue;
  if (bytes > kMemoryMax || !grow(pool, bytes)) return kOutOfMemory;
  Range range{.bytes = bytes, .kind = Kind::pooled, .context = &context, .pool = &pool};
  range.addresses = std::make_shared<Addresses>(bytes, false);
  // Its data; the pool has the memory of the card.
  range.block = std::make_shared<Block>(-1, bytes, Account::charged);
  *pointer = range.addresses->begin();
  if (*pointer == 0) {
    return_to_pool(pool, bytes);
    return kOutOfMemory;
  }
  add_range(*pointer, std::move(range));
  return kSuccess;
}

// What a captured stream allocates is taken by the launch of its graph.
int capture_take(Capture& capture, int card, Pointer* pointer, std::size_t bytes) {
  if (capture.invalid) return kCaptureInvalidated;
  if (pointer == nullptr || bytes == 0) return kInvalidValue;
  if (bytes > kMemoryMax) return kOutOfMemory;
  *pointer = add_take(*capture.graph, card, bytes);
  return *pointer != 0 ? kSuccess : kOutOfMemory;
}

// CUmemPoolProps; version 11.8 has zeros in the place of the largest size.
struct PoolProperties {
  int allocation_type;
  int handle_types;
  int location_type;  // 1 is a device
  int location;
  void* security;
  std::size_t most;
  unsigned char other[56];
};

// CUmemPool_attribute
enum PoolAttribute : int {
  kReuseFirst = 1,
  kReuseLast = 3,
  kThreshold = 4,
  kReservedCurrent = 5,
  kReservedHigh = 6,
  kUsedCurrent = 7,
  kUsedHigh = 8,
};

int get_attribute(const Pool& pool, int attribute, void* to) {
  const auto answer = [&](std::uint64_t value) {
    std::memcpy(to, &value, sizeof value);
    return kSuccess;
  };
  const int one = 1;
  switch (attribute) {
    case 1:
    case 2:
    case 3:
      std::memcpy(to, &one, sizeof one);
      return kSuccess;
    case kThreshold:
      return answer(pool.threshold);
    case kReservedCurrent:
      return answer(has_fault("pool") ? 0 : pool.reserved());
    case kReservedHigh:
      return answer(pool.reserved_high);
    case kUsedCurrent:
      return answer(pool.used);
    case kUsedHigh:
      return answer(pool.used_high);
    default:
      return kInvalidValue;
  }
}

// High water marks can only be set to zero.
int set_attribute(Pool& pool, int attribute, const void* from) {
  if (attribute >= kReuseFirst && attribute <= kReuseLast) return kSuccess;
  std::uint64_t value = 0;
  std::memcpy(&value, from, sizeof value);
  if (attribute == kThreshold) {
    pool.threshold = value;
    return kSuccess;
  }
  if (value != 0 || (attribute != kReservedHigh && attribute != kUsedHigh)) return kInvalidValue;
  (attribute == kReservedHigh ? pool.reserved_high : pool.used_high) =
      attribute == kReservedHigh ? pool.reserved() : pool.used;
  return kSuccess;
}

template <class Run>
int on_pool(Pool* pool, Run run) {
  return initialized([&] { return is_pool(pool) ? run(*pool) : kInvalidValue; });
}

}  // namespace

void settle_pools(int card) {
  for (auto& node : std::exchange(process().freed, {})) {
    const Pointer at = node.key();
    if (node.mapped().context->card != card) {
      process().freed.push_back(std::move(node));
      continue;
    }
    process().ranges.insert(std::move(node));
    free_range(at);
  }
  for (Pool& pool : pools()) {
    if (pool.card == card) shrink(pool, pool.threshold);
  }
}

void give_unused_back(int card) {
  for (Pool& pool : pools()) {
    if (pool.card == card) shrink(pool, 0);
  }
}

// The memory stays reserved until something is synchronized.
void return_to_pool(Pool& pool, std::uint64_t bytes) {
  pool.used -= bytes;
  if (!pool.destroyed || pool.used != 0) return;
  pools().remove_if([&](const Pool& other) { return &other == &pool; });
}

}  // namespace mgpu::fake_gpu

FAKE_CUDA int cuDeviceGetDefaultMemPool(Pool** pool, int device) {
  return on_device(device, [&] {
    if (pool == nullptr) return kInvalidValue;
    *pool = &default_pool(device);
    return kSuccess;
  });
}
FAKE_CUDA_ALIAS(cuDeviceGetMemPool, cuDeviceGetDefaultMemPool);

FAKE_CUDA int cuMemPoolCreate(Pool** pool, const PoolProperties* wanted) {
  return initialized([&] {
    if (pool == nullptr || wanted == nullptr) return kInvalidValue;
    if (wanted->location_type != 1 || !is_device(wanted->location)) return kInvalidValue;
    *pool = &pools().emplace_back(Pool{.card = wanted->location, .most = wanted->most});
    return kSuccess;
  });
}

// Its allocations live on, and the pool with them.
FAKE_CUDA int cuMemPoolDestroy(Pool* pool) {
  return on_pool(pool, [](Pool& ended) {
    if (ended.is_default) return kInvalidValue;
    ended.destroyed = true;
    ended.used += 1;
    return_to_pool(ended, 1);
    return kSuccess;
  });
}

FAKE_CUDA int cuMemPoolTrimTo(Pool* pool, std::size_t kept) {
  return on_pool(pool, [&](Pool& trimmed) {
    shrink(trimmed, kept);
    return kSuccess;
  });
}

FAKE_CUDA int cuMemPoolGetAttribute(Pool* pool, int attribute, void* value) {
  return on_pool(pool, [&](Pool& asked) { return get_attribute(asked, attribute, value); });
}

FAKE_CUDA int cuMemPoolSetAttribute(Pool* pool, int attribute, void* value) {
  return on_pool(pool, [&](Pool& changed) { return set_attribute(changed, attribute, value); });
}

FAKE_CUDA int cuMemPoolSetAccess(Pool* pool, const void*, std::size_t) {
  return on_pool(pool, [](Pool&) { return kSuccess; });
}

// --- allocations ---------------------------------------------------------------------------------

FAKE_CUDA int cuMemAllocAsync(Pointer* pointer, std::size_t bytes, Stream* stream) {
  return in_context([&](Context& context) {
    if (Capture* const capture = capture_of(stream)) {
      return capture_take(*capture, context.card, pointer, bytes);
    }
    return allocate_from(context, default_pool(context.card), pointer, bytes);
  });
}
FAKE_CUDA_ALIAS(cuMemAllocAsync_ptsz, cuMemAllocAsync);

FAKE_CUDA int cuMemAllocFromPoolAsync(Pointer* pointer, std::size_t bytes, Pool* pool,
                                      Stream* stream) {
  fault_of_pool();
  return in_context([&](Context& context) {
    if (!is_pool(pool)) return kInvalidValue;
    if (Capture* const capture = capture_of(stream)) {
      return capture_take(*capture, pool->card, pointer, bytes);
    }
    return allocate_from(context, *pool, pointer, bytes);
  });
}
FAKE_CUDA_ALIAS(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync);

FAKE_CUDA int cuMemFreeAsync(Pointer pointer, Stream* stream) {
  return in_context([&](Context&) {
    if (pointer == 0) return kSuccess;
    if (Capture* const capture = capture_of(stream)) {
      if (capture->invalid) return kCaptureInvalidated;
      add_give(*capture->graph, pointer);
      return kSuccess;
    }
    Pointer begin = 0;
    const Range* const range = find_range(pointer, 1, &begin);
    const bool freeable =
        range != nullptr && begin == pointer &&
        (range->kind == Kind::pooled || range->kind == Kind::device || range->kind == Kind::graph);
    if (!freeable) return kInvalidValue;
    if (range->kind == Kind::device) {
      process().freed.push_back(process().ranges.extract(pointer));
    } else {
      free_range(pointer);
    }
    return kSuccess;
  });
}
FAKE_CUDA_ALIAS(cuMemFreeAsync_ptsz, cuMemFreeAsync);
