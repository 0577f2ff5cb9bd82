// Memory pools. What counts is what a pool has reserved, in chunks of 32 MiB, and not what is
// allocated from it. A call reserves the most by which the pool can grow, and gives back the rest
// when the driver's answer is known. Pools shrink when a stream or a context is synchronized, or
// when the driver needs memory elsewhere.
//
// The memory of graphs is one more pool of each card. The driver keeps it reserved after a launch
// for the next, and a launch for which it has too little memory keeps all that is free. So such a
// launch is refused before.
#include <bit>

#include "plugin/share/memory.h"
#include "plugin/share/table.h"

namespace mgpu::share {
namespace {

constexpr std::uint64_t kPoolChunk = std::uint64_t{32} << 20U;
constexpr int kPoolUsed = 7;  // CU_MEMPOOL_ATTR_USED_MEM_CURRENT

struct Pool {
  unsigned card;
  std::uint64_t counted;
};

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
Table<Pool> pools;  // by handle
std::uint64_t counted_for_graphs[kCardsMax];
std::atomic<bool> used = false;

std::uint64_t key_of(Handle handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}

std::uint64_t rounded_up(std::uint64_t bytes) {
  return bytes > kUnitsMax * kUnit ? bytes : (bytes + kPoolChunk - 1) / kPoolChunk * kPoolChunk;
}

// The account follows what the driver says.
void follow(Card& card, std::uint64_t& counted, std::uint64_t reserved) {
  if (reserved > counted) card.account.charge(reserved - counted);
  if (reserved < counted) card.account.give_back(counted - reserved);
  counted = reserved;
}

void follow(std::uint64_t handle, Pool& pool) {
  std::uint64_t reserved = 0;
  const auto result =
      REAL(cuMemPoolGetAttribute)(std::bit_cast<Handle>(handle), kPoolReserved, &reserved);
  if (result == kSuccess) follow(card_at(pool.card), pool.counted, reserved);
}

void follow_graphs(Card& card) {
  std::uint64_t reserved = 0;
  const auto result = REAL(cuDeviceGetGraphMemAttribute)(card.device, kGraphReserved, &reserved);
  if (result == kSuccess) follow(card, counted_for_graphs[index_of(card)], reserved);
}

void follow_all(Card& card) {
  pools.for_each([&](std::uint64_t handle, Pool& pool) {
    if (pool.card == index_of(card)) follow(handle, pool);
  });
  if (counted_for_graphs[index_of(card)] > 0) follow_graphs(card);
}

void trim_all(Card& card) {
  pools.for_each([&](std::uint64_t handle, Pool& pool) {
    if (pool.card == index_of(card)) REAL(cuMemPoolTrimTo)(std::bit_cast<Handle>(handle), 0);
  });
  if (counted_for_graphs[index_of(card)] > 0) REAL(cuDeviceGraphMemTrim)(card.device);
  follow_all(card);
}

// reserve() of cards.h, where the lock of the pools is held.
bool reserve_locked(Card& card, std::uint64_t bytes) {
  if (card.account.reserve(bytes)) return true;
  if (bytes > card.account.limit_bytes()) return false;
  follow_all(card);
  if (card.account.reserve(bytes)) return true;
  trim_all(card);
  return card.account.reserve(bytes);
}

template <class Call>
Result allocate(Card& card, Handle handle, std::uint64_t bytes, Call call) {
  const Lock lock(mutex);
  used = true;
  Pool* pool = pools.find(key_of(handle));
  if (pool == nullptr) pool = pools.insert(key_of(handle));
  if (pool == nullptr) return kOutOfMemory;
  if (pool->counted == 0) pool->card = index_of(card);
  const std::uint64_t most = rounded_up(bytes);
  if (!reserve_locked(card, most)) return kOutOfMemory;
  pool->counted += most;
  const Result result = call();
  follow(key_of(handle), *pool);
  return result;
}

// The card of a stream, or of the current context for the default streams.
Card* card_of_stream(Handle stream) {
  constexpr std::uint64_t kDefaultStreams = 2;
  Device device = 0;
  if (key_of(stream) > kDefaultStreams && REAL(cuStreamGetDevice)(stream, &device) == kSuccess) {
    return card_of(device);
  }
  return current_card();
}

// Pools that were made here are known; of the others, each card has a default.
Card* card_of_pool(Handle handle, Handle stream) {
  {
    const Lock lock(mutex);
    const Pool* const pool = pools.find(key_of(handle));
    if (pool != nullptr) return &card_at(pool->card);
  }
  for (unsigned i = 0; i < card_count(); ++i) {
    Handle of_card = nullptr;
    const auto result = REAL(cuDeviceGetDefaultMemPool)(&of_card, card_at(i).device);
    if (result == kSuccess && of_card == handle) return &card_at(i);
  }
  return card_of_stream(stream);
}

template <class Call>
Result allocate_from_current(Address*, std::size_t bytes, Handle stream, Call call) {
  Card* const card = card_of_stream(stream);
  if (card == nullptr) return no_card();
  Handle pool = nullptr;
  const Result result = REAL(cuDeviceGetMemPool)(&pool, card->device);
  if (result != kSuccess || bytes == 0) return call();  // an error of the driver
  card_of_pool(pool, stream);
  return allocate(*card, pool, bytes, call);
}

template <class Call>
Result allocate_from(Handle pool, std::size_t bytes, Handle stream, Call call) {
  if (pool == nullptr || bytes == 0) return call();  // an error of the driver
  Card* const card = card_of_pool(pool, stream);
  if (card == nullptr) return no_card();
  return allocate(*card, pool, bytes, call);
}

// A capture makes a node of a graph, which takes memory when it is launched.
bool captures(Handle stream, Result (*ask)(Handle, int*)) {
  int status = 0;
  return ask(stream, &status) == kSuccess && status != 0;
}

template <class Call>
Result followed(Call call) {
  const Result result = call();
  if (!uses_pools() || !cards_attached()) return result;
  for (unsigned i = 0; i < card_count(); ++i) count_unused_pools(card_at(i));
  return result;
}

}  // namespace

void forget_pools() {
  const Lock lock(mutex);
  pools.clear();
  for (auto& counted : counted_for_graphs) counted = 0;
  used = false;
}

bool uses_pools() {
  return used.load(std::memory_order_relaxed);
}

void count_unused_pools(Card& card) {
  if (!uses_pools()) return;
  const Lock lock(mutex);
  follow_all(card);
}

void trim_unused_pools(Card& card) {
  const Lock lock(mutex);
  trim_all(card);
}

Result launch_with(const GraphNeed& need, const GraphNeed& all, Result (*launch)(Handle, Handle),
                   Handle exec, Handle stream) {
  const Lock lock(mutex);
  used = true;
  bool fits = true;
  for (unsigned i = 0; i < card_count() && fits; ++i) {
    if (need.bytes[i] == 0) continue;
    follow_graphs(card_at(i));  // the driver itself may have taken some back
    std::uint64_t& counted = counted_for_graphs[i];
    const std::uint64_t missing = all.bytes[i] > counted ? all.bytes[i] - counted : 0;
    const std::uint64_t most = rounded_up(missing < need.bytes[i] ? missing : need.bytes[i]);
    if (most == 0) continue;
    fits = reserve_locked(card_at(i), most);
    if (fits) counted += most;
  }
  const Result result = fits ? launch(exec, stream) : kOutOfMemory;
  for (unsigned i = 0; i < card_count(); ++i) {
    if (need.bytes[i] > 0) follow_graphs(card_at(i));
  }
  return result;
}

// --- the driver's functions ------------------------------------------------------------

Result cuMemAllocAsync(Address* address, std::size_t bytes, Handle stream) {
  const auto call = [&] { return REAL(cuMemAllocAsync)(address, bytes, stream); };
  if (captures(stream, REAL(cuStreamIsCapturing))) return call();
  return allocate_from_current(address, bytes, stream, call);
}

Result cuMemAllocAsync_ptsz(Address* address, std::size_t bytes, Handle stream) {
  const auto call = [&] { return REAL(cuMemAllocAsync_ptsz)(address, bytes, stream); };
  if (captures(stream, REAL(cuStreamIsCapturing_ptsz))) return call();
  return allocate_from_current(address, bytes, stream, call);
}

Result cuMemAllocFromPoolAsync(Address* address, std::size_t bytes, Handle pool, Handle stream) {
  const auto call = [&] { return REAL(cuMemAllocFromPoolAsync)(address, bytes, pool, stream); };
  if (captures(stream, REAL(cuStreamIsCapturing))) return call();
  return allocate_from(pool, bytes, stream, call);
}

Result cuMemAllocFromPoolAsync_ptsz(Address* address, std::size_t bytes, Handle pool,
                                    Handle stream) {
  const auto call = [&] {
    return REAL(cuMemAllocFromPoolAsync_ptsz)(address, bytes, pool, stream);
  };
  if (captures(stream, REAL(cuStreamIsCapturing_ptsz))) return call();
  return allocate_from(pool, bytes, stream, call);
}

Result cuMemPoolCreate(Handle* pool, const PoolProperties* properties) {
  const Result result = REAL(cuMemPoolCreate)(pool, properties);
  if (result != kSuccess || properties->location.type != kDeviceLocation) return result;
  const Card* const card = card_of(properties->location.id);
  if (card == nullptr) return result;
  const Lock lock(mutex);
  Pool* const known = pools.insert(key_of(*pool));
  if (known != nullptr) *known = {.card = index_of(*card), .counted = 0};
  used = true;
  return result;
}

// A pool with memory in use lives on without a handle to ask about. That memory counts until the
// process ends.
Result cuMemPoolDestroy(Handle pool) {
  const Lock lock(mutex);
  std::uint64_t in_use = 0;
  const bool known = REAL(cuMemPoolGetAttribute)(pool, kPoolUsed, &in_use) == kSuccess;
  const Result result = REAL(cuMemPoolDestroy)(pool);
  Pool* const found = pools.find(key_of(pool));
  if (result != kSuccess || found == nullptr) return result;
  if (known && in_use == 0) follow(card_at(found->card), found->counted, 0);
  pools.erase(key_of(pool));
  return result;
}

Result cuMemPoolTrimTo(Handle pool, std::size_t keep) {
  return followed([&] { return REAL(cuMemPoolTrimTo)(pool, keep); });
}

Result cuStreamSynchronize(Handle stream) {
  return followed([&] { return REAL(cuStreamSynchronize)(stream); });
}

Result cuStreamSynchronize_ptsz(Handle stream) {
  return followed([&] { return REAL(cuStreamSynchronize_ptsz)(stream); });
}

Result cuCtxSynchronize() {
  return followed([&] { return REAL(cuCtxSynchronize)(); });
}

Result cuCtxSynchronize_v2(Handle context) {
  return followed([&] { return REAL(cuCtxSynchronize_v2)(context); });
}

Result cuDeviceGraphMemTrim(Device device) {
  return followed([&] { return REAL(cuDeviceGraphMemTrim)(device); });
}

}  // namespace mgpu::share
