// Memory pools. What counts is what a pool has reserved, in chunks of 32 MiB, and not what is
// allocated from it. A call reserves the most by which the pool can grow, and gives back the rest
// when the driver's answer is known. Pools shrink when a stream, an event or a context is
// synchronized, or when the driver needs memory elsewhere.
//
// The memory of graphs is one more pool of each card. The driver keeps it reserved after a launch
// for the next, and a launch for which it has too little memory keeps all that is free. So such a
// launch is refused before.
//
// The lock is not held while the driver allocates or launches: a launch may wait for a function of
// the program that allocates itself.
#include <bit>

#include "plugin/share/memory.h"
#include "plugin/share/table.h"

namespace mgpu::share {
namespace {

constexpr std::uint64_t kPoolChunk = std::uint64_t{32} << 20U;
constexpr int kPoolUsed = 7;  // CU_MEMPOOL_ATTR_USED_MEM_CURRENT

struct Pool {
  unsigned card;
  bool on_host;
  std::uint64_t counted;    // what the driver has reserved, and what is in flight
  std::uint64_t in_flight;  // the most by which calls let it grow that have not returned
};

pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
Table<Pool> pools;  // by handle
Pool graphs[kCardsMax];
std::atomic<bool> used = false;

std::uint64_t key_of(Handle handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}

std::uint64_t rounded_up(std::uint64_t bytes) {
  return bytes > kUnitsMax * kUnit ? bytes : (bytes + kPoolChunk - 1) / kPoolChunk * kPoolChunk;
}

// The account follows what the driver says.
void follow(Pool& pool, std::uint64_t reserved) {
  std::uint64_t now = reserved + pool.in_flight;
  // What is in flight may have come already.
  if (pool.in_flight > 0 && now > pool.counted) {
    now = reserved > pool.counted ? reserved : pool.counted;
  }
  Card& card = card_at(pool.card);
  if (now > pool.counted) card.account.charge(now - pool.counted);
  if (now < pool.counted) card.account.give_back(pool.counted - now);
  pool.counted = now;
}

// The driver is asked before the pool is looked up: tools have callbacks in its functions.
bool follow(std::uint64_t handle) {
  std::uint64_t reserved = 0;
  const auto result =
      REAL(cuMemPoolGetAttribute)(std::bit_cast<Handle>(handle), kPoolReserved, &reserved);
  Pool* const pool = pools.find(handle);
  if (result != kSuccess || pool == nullptr) return false;
  if (!pool->on_host) follow(*pool, reserved);
  return true;
}

bool follow_graphs(unsigned card) {
  std::uint64_t reserved = 0;
  const auto result =
      REAL(cuDeviceGetGraphMemAttribute)(card_at(card).device, kGraphReserved, &reserved);
  graphs[card].card = card;
  if (result == kSuccess) follow(graphs[card], reserved);
  return result == kSuccess;
}

void follow_all(const Card& card) {
  pools.for_each([&](std::uint64_t handle, const Pool& pool) {
    if (pool.card == index_of(card)) follow(handle);
  });
  if (graphs[index_of(card)].counted > 0) follow_graphs(index_of(card));
}

void trim_all(const Card& card) {
  pools.for_each([&](std::uint64_t handle, const Pool& pool) {
    if (pool.card == index_of(card) && !pool.on_host)
      REAL(cuMemPoolTrimTo)(std::bit_cast<Handle>(handle), 0);
  });
  if (graphs[index_of(card)].counted > 0) REAL(cuDeviceGraphMemTrim)(card.device);
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

void begin(Pool& pool, std::uint64_t most) {
  pool.counted += most;
  pool.in_flight += most;
}

// Where the driver does not say what is reserved now, a call that failed has taken nothing.
template <class Follow>
void end(Pool& pool, std::uint64_t most, Result result, Follow follow_it) {
  pool.in_flight -= most;
  if (follow_it() || result == kSuccess) return;
  pool.counted -= most;
  card_at(pool.card).account.give_back(most);
}

// The card of a stream, or of the current context for the default streams.
Card* card_of_stream(Handle stream) {
  constexpr std::uint64_t kDefaultStreams = 2;
  Device device = 0;
  Handle context = nullptr;
  if (key_of(stream) <= kDefaultStreams) return current_card();
  Result result = REAL(cuStreamGetDevice)(stream, &device);
  // Drivers before CUDA 12.8 have only the context.
  if (result != kSuccess && REAL(cuStreamGetCtx)(stream, &context) == kSuccess &&
      REAL(cuCtxPushCurrent_v2)(context) == kSuccess) {
    result = REAL(cuCtxGetDevice)(&device);
    REAL(cuCtxPopCurrent_v2)(&context);
  }
  return result == kSuccess ? card_of(device) : current_card();
}

// Pools that were made here are known; of the others, each card has a default.
Card* card_of_pool(Handle handle, Handle stream, bool* on_host) {
  {
    const Lock lock(mutex);
    const Pool* const pool = pools.find(key_of(handle));
    if (pool != nullptr) *on_host = pool->on_host;
    if (pool != nullptr) return &card_at(pool->card);
  }
  for (unsigned i = 0; i < card_count(); ++i) {
    Handle of_card = nullptr;
    const auto result = REAL(cuDeviceGetDefaultMemPool)(&of_card, card_at(i).device);
    if (result == kSuccess && of_card == handle) return &card_at(i);
  }
  return card_of_stream(stream);
}

// The entry of a pool. Null: no memory.
Pool* known(Handle handle, const Card& card) {
  used = true;
  Pool* pool = pools.find(key_of(handle));
  if (pool != nullptr) return pool;
  pool = pools.insert(key_of(handle));
  if (pool != nullptr) pool->card = index_of(card);
  return pool;
}

// The functions of one kind of default stream.
struct Functions {
  Result (*allocate)(Address*, std::size_t, Handle pool, Handle stream);
  Result (*free)(Address, Handle stream);
  Result (*is_capturing)(Handle stream, int* status);
  Result (*capture_info)(Handle stream, int* status, std::uint64_t* id);
  Result (*synchronize)(Handle stream);
};

// What was freed in the order of the stream is the driver's to use again at once, and comes back to
// the account when that is known.
bool reserve_after(Handle stream, Card& card, std::uint64_t bytes, const Functions& real) {
  {
    const Lock lock(mutex);
    if (reserve_locked(card, bytes)) return true;
    if (bytes > card.account.limit_bytes() || !uses_pools()) return false;
  }
  if (real.synchronize(stream) != kSuccess) return false;
  const Lock lock(mutex);
  return reserve_locked(card, bytes);
}

// The ID of the stream's capture, which no other capture of the process has; 0 if there is none, or
// the driver does not say (cuStreamGetCaptureInfo).
std::uint64_t capture_of(Handle stream, const Functions& real) {
  constexpr int kActive = 1;
  int status = 0;
  std::uint64_t id = 0;
  const Result result = real.capture_info(stream, &status, &id);
  return result == kSuccess && status == kActive ? id : 0;
}

// A capture makes a node of a graph, which takes memory when it is launched. Unless it is the same
// after the call, the pool may have grown.
Result capture(Card& card, Address* address, std::size_t bytes, Handle pool, Handle stream,
               const Functions& real) {
  const std::uint64_t before = capture_of(stream, real);
  const Result result = real.allocate(address, bytes, pool, stream);
  if (result != kSuccess) return result;
  if (before != 0 && capture_of(stream, real) == before) return kSuccess;
  const Lock lock(mutex);
  known(pool, card);
  follow(key_of(pool));
  if (card.account.total_bytes() <= card.account.limit_bytes()) return kSuccess;
  real.free(*address, stream);
  return kOutOfMemory;
}

Result allocate(Address* address, std::size_t bytes, Handle handle, Handle stream,
                const Functions& real) {
  if (handle == nullptr || bytes == 0) return real.allocate(address, bytes, handle, stream);
  if (const Result attached = attach_cards(); attached != kSuccess) return attached;
  bool on_host = false;
  Card* const card = card_of_pool(handle, stream, &on_host);
  if (on_host) return real.allocate(address, bytes, handle, stream);
  if (card == nullptr) return no_card();
  int capturing = 0;
  if (real.is_capturing(stream, &capturing) == kSuccess && capturing != 0) {
    return capture(*card, address, bytes, handle, stream, real);
  }
  const std::uint64_t most = rounded_up(bytes);
  if (!reserve_after(stream, *card, most, real)) return kOutOfMemory;
  {
    const Lock lock(mutex);
    Pool* const pool = known(handle, *card);
    if (pool == nullptr) return kOutOfMemory;
    begin(*pool, most);
  }
  const Result result = real.allocate(address, bytes, handle, stream);
  const Lock lock(mutex);
  Pool* const pool = pools.find(key_of(handle));
  if (pool != nullptr) end(*pool, most, result, [&] { return follow(key_of(handle)); });
  return result;
}

// From the pool that is the stream's card's now, by a call that names it: another thread may set
// another one meanwhile.
Result allocate_from_current(Address* address, std::size_t bytes, Handle stream,
                             const Functions& real) {
  Card* const card = card_of_stream(stream);
  if (card == nullptr) return no_card();
  Handle pool = nullptr;
  const Result result = REAL(cuDeviceGetMemPool)(&pool, card->device);
  return result != kSuccess ? result : allocate(address, bytes, pool, stream, real);
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
  for (Pool& pool : graphs) pool = {};
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

namespace {
// Reserves what a launch takes beyond what graphs have reserved already, which a trim lessens.
bool reserve_missing(unsigned card, std::uint64_t need, std::uint64_t all, std::uint64_t* most) {
  follow_graphs(card);  // the driver itself may have taken some back
  const std::uint64_t counted = graphs[card].counted;
  const std::uint64_t missing = all > counted ? all - counted : 0;
  *most = rounded_up(missing < need ? missing : need);
  if (*most == 0 || card_at(card).account.reserve(*most)) return true;
  *most = 0;
  return false;
}

bool reserve_for_launch(unsigned card, std::uint64_t need, std::uint64_t all, std::uint64_t* most) {
  if (reserve_missing(card, need, all, most)) return true;
  if (need > card_at(card).account.limit_bytes()) return false;
  follow_all(card_at(card));
  if (reserve_missing(card, need, all, most)) return true;
  trim_all(card_at(card));
  return reserve_missing(card, need, all, most);
}
}  // namespace

Result launch_with(const GraphNeed& need, const GraphNeed& all, Result (*launch)(Handle, Handle),
                   Handle exec, Handle stream) {
  std::uint64_t most[kCardsMax] = {};
  bool fits = true;
  {
    const Lock lock(mutex);
    used = true;
    for (unsigned i = 0; i < card_count() && fits; ++i) {
      if (need.bytes[i] == 0) continue;
      fits = reserve_for_launch(i, need.bytes[i], all.bytes[i], &most[i]);
      begin(graphs[i], most[i]);
    }
  }
  const Result result = fits ? launch(exec, stream) : kOutOfMemory;
  const Lock lock(mutex);
  for (unsigned i = 0; i < card_count(); ++i) {
    if (need.bytes[i] > 0) end(graphs[i], most[i], result, [&] { return follow_graphs(i); });
  }
  return result;
}

// --- the driver's functions ------------------------------------------------------------

namespace {
Functions functions() {
  return {.allocate = REAL(cuMemAllocFromPoolAsync),
          .free = REAL(cuMemFreeAsync),
          .is_capturing = REAL(cuStreamIsCapturing),
          .capture_info = REAL(cuStreamGetCaptureInfo),
          .synchronize = REAL(cuStreamSynchronize)};
}

Functions functions_ptsz() {
  return {.allocate = REAL(cuMemAllocFromPoolAsync_ptsz),
          .free = REAL(cuMemFreeAsync_ptsz),
          .is_capturing = REAL(cuStreamIsCapturing_ptsz),
          .capture_info = REAL(cuStreamGetCaptureInfo_ptsz),
          .synchronize = REAL(cuStreamSynchronize_ptsz)};
}
}  // namespace

Result cuMemAllocAsync(Address* address, std::size_t bytes, Handle stream) {
  return allocate_from_current(address, bytes, stream, functions());
}

Result cuMemAllocAsync_ptsz(Address* address, std::size_t bytes, Handle stream) {
  return allocate_from_current(address, bytes, stream, functions_ptsz());
}

Result cuMemAllocFromPoolAsync(Address* address, std::size_t bytes, Handle pool, Handle stream) {
  return allocate(address, bytes, pool, stream, functions());
}

Result cuMemAllocFromPoolAsync_ptsz(Address* address, std::size_t bytes, Handle pool,
                                    Handle stream) {
  return allocate(address, bytes, pool, stream, functions_ptsz());
}

Result cuMemPoolCreate(Handle* pool, const PoolProperties* properties) {
  constexpr int kPinned = 1;  // CU_MEM_ALLOCATION_TYPE_PINNED
  const Result result = REAL(cuMemPoolCreate)(pool, properties);
  if (result != kSuccess || !cards_attached()) return result;
  const int type = properties->location.type;
  const bool on_host =
      properties->type == kPinned && type > kDeviceLocation && type <= kLastHostLocation;
  const Card* const card = on_host                   ? &card_at(0)
                           : type == kDeviceLocation ? card_of(properties->location.id)
                                                     : nullptr;
  if (card == nullptr) return result;
  const Lock lock(mutex);
  pools.erase(key_of(*pool));
  Pool* const made = known(*pool, *card);
  if (made != nullptr) made->on_host = on_host;
  return result;
}

// A pool with memory in use lives on without a handle to ask about.
Result cuMemPoolDestroy(Handle pool) {
  if (!cards_attached()) return REAL(cuMemPoolDestroy)(pool);
  const Lock lock(mutex);
  std::uint64_t in_use = 0;
  const bool asked = REAL(cuMemPoolGetAttribute)(pool, kPoolUsed, &in_use) == kSuccess;
  const Result result = REAL(cuMemPoolDestroy)(pool);
  Pool* const found = pools.find(key_of(pool));
  if (result != kSuccess || found == nullptr) return result;
  if (asked && in_use == 0 && found->in_flight == 0) {
    follow(*found, 0);
  } else {
    leave_to_nvml(card_at(found->card), found->counted);
  }
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

Result cuEventSynchronize(Handle event) {
  return followed([&] { return REAL(cuEventSynchronize)(event); });
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
