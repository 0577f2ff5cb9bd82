// Linear memory, managed memory, arrays.
//
// The driver takes memory in chunks of 2 MiB, aligned: one or more for each allocation of over 1
// MiB, and one for many smaller ones, until the last of them is freed (seen on an H200 with driver
// 580.159.04). So small pieces count by the chunks that they are in.
#include "plugin/share/memory.h"

#include "plugin/share/table.h"

namespace mgpu::share {
namespace {

constexpr std::uint64_t kChunk = std::uint64_t{2} << 20U;
constexpr std::uint64_t kSmallMax = std::uint64_t{1} << 20U;
struct Block {
  Handle context;
  unsigned card;  // or kAllCards
  bool piece;     // of a chunk
  std::uint64_t bytes;
};
constexpr unsigned kAllCards = kCardsMax;  // it may move to each of them

// A chunk with small pieces.
struct Chunk {
  unsigned card;
  std::uint64_t pieces;
};

pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
Table<Block> blocks;  // by address, or by the handle of an array
Table<Chunk> chunks;  // by chunk_of()

std::uint64_t key_of(const void* handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}

std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t step) {
  return bytes > ~std::uint64_t{0} - step ? ~std::uint64_t{0} : (bytes + step - 1) / step * step;
}

std::uint64_t chunk_of(std::uint64_t address) {
  return address / kChunk + 1;
}

// What was reserved for a chunk is given back if the driver had one already.
void add_piece(Card& card, const Block& block, std::uint64_t address) {
  Chunk* const chunk = chunks.insert(chunk_of(address));
  if (chunk == nullptr) return;
  if (chunk->pieces++ > 0) card.account.give_back(kChunk);
  chunk->card = block.card;
}

void remove_piece(std::uint64_t address) {
  Chunk* const chunk = chunks.find(chunk_of(address));
  if (chunk == nullptr || --chunk->pieces > 0) return;
  card_at(chunk->card).account.give_back(kChunk);
  chunks.erase(chunk_of(address));
}

// The driver keeps up to this much of what managed memory gave back (seen: 126 MiB).
constexpr std::uint64_t kManagedKept = std::uint64_t{128} << 20U;
struct Managed {
  std::uint64_t allocated;
  std::uint64_t counted;  // on each card
} managed;

// Counts this much managed memory on all cards, or nothing. NVML shows it for no process.
bool count_managed(std::uint64_t bytes) {
  for (unsigned i = 0; i < card_count() && bytes > managed.counted; ++i) {
    if (reserve(card_at(i), bytes - managed.counted)) continue;
    while (i-- > 0) card_at(i).account.give_back(bytes - managed.counted);
    return false;
  }
  for (unsigned i = 0; i < card_count(); ++i) {
    add_hidden(i, static_cast<std::int64_t>(bytes - managed.counted));
    if (bytes < managed.counted) card_at(i).account.give_back(managed.counted - bytes);
  }
  managed.counted = bytes;
  return true;
}

void give_back(const Block& block) {
  if (block.card != kAllCards) return card_at(block.card).account.give_back(block.bytes);
  const Lock lock(mutex);
  managed.allocated -= block.bytes;
  const std::uint64_t kept = managed.counted < kManagedKept ? managed.counted : kManagedKept;
  count_managed(managed.allocated > kept ? managed.allocated : kept);
}

bool reserve(const Block& block) {
  if (block.card != kAllCards) return reserve(card_at(block.card), block.bytes);
  const Lock lock(mutex);
  const std::uint64_t all = managed.allocated + block.bytes;
  if (all < block.bytes || (all > managed.counted && !count_managed(all))) return false;
  managed.allocated = all;
  return true;
}

void remove(std::uint64_t key, const Block& block) {
  if (block.piece) {
    remove_piece(key);
  } else {
    give_back(block);
  }
}

Block block_of(const Card& card, std::uint64_t bytes, bool own_chunks) {
  Block block{.context = nullptr,
              .card = index_of(card),
              .piece = !own_chunks && bytes <= kSmallMax,
              .bytes = rounded_up(bytes, kChunk)};
  REAL(cuCtxGetCurrent)(&block.context);
  return block;
}

void remember(const Block& block, std::uint64_t key) {
  const Lock lock(mutex);
  Block* const known = blocks.insert(key);
  if (known == nullptr) return;  // it counts until the process ends
  // A key that is known was freed with its context, by a call that was not seen.
  if (known->bytes != 0) remove(key, *known);
  *known = block;
  if (block.piece) add_piece(card_at(block.card), block, key);
}

enum class Place { kMayShareChunk, kOwnChunks, kEveryCard };

// Reserves, calls the driver, and remembers what it has allocated by the key that it returns.
template <class Key, class Call>
Result allocate(Key* key, std::uint64_t bytes, Place place, Call call) {
  if (bytes == 0 || key == nullptr) return call();  // an error of the driver
  const Card* const card = current_card();
  if (card == nullptr) return no_card();
  Block block = block_of(*card, bytes, place != Place::kMayShareChunk);
  if (place == Place::kEveryCard) block.card = kAllCards;
  if (!reserve(block)) return kOutOfMemory;
  const Result result = call();
  if (result != kSuccess) {
    give_back(block);
    return result;
  }
  remember(block, (std::uint64_t)*key);
  return result;
}

// The block is forgotten first, since the driver may give its address to another thread at once.
template <class Call>
Result free_block(std::uint64_t key, Call call) {
  if (!cards_attached()) return call();
  Block block{};
  {
    const Lock lock(mutex);
    if (const Block* const known = blocks.find(key); known != nullptr) block = *known;
    blocks.erase(key);
  }
  const Result result = call();
  if (block.bytes == 0) return result;
  const Lock lock(mutex);
  if (result == kSuccess) {
    remove(key, block);
  } else if (Block* const again = blocks.insert(key); again != nullptr) {
    *again = block;
  }
  return result;
}

// The driver takes nothing for it, so its size can be asked for afterwards. It may be on another
// card than the context.
template <class Call>
Result import(Address* address, Call call) {
  constexpr int kDeviceOrdinal = 9;  // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
  const Card* card = current_card();
  if (card == nullptr) return no_card();
  const Result result = call();
  if (result != kSuccess) return result;
  int ordinal = 0;
  if (REAL(cuPointerGetAttribute)(&ordinal, kDeviceOrdinal, *address) == kSuccess) {
    if (const Card* const of_memory = card_of(ordinal); of_memory != nullptr) card = of_memory;
  }
  Address base = 0;
  std::size_t bytes = 0;
  const bool known = REAL(cuMemGetAddressRange_v2)(&base, &bytes, *address) == kSuccess;
  const Block block = block_of(*card, bytes, true);
  if (known && reserve(block)) {
    remember(block, *address);
    return kSuccess;
  }
  REAL(cuIpcCloseMemHandle)(*address);
  return kOutOfMemory;
}

std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  return b != 0 && a > ~std::uint64_t{0} / b ? ~std::uint64_t{0} : a * b;
}

// Rows are aligned to 512 bytes.
std::uint64_t pitched(std::uint64_t width, std::uint64_t height) {
  return product(rounded_up(width, 512), height);
}

constexpr unsigned kLayered = 0x01;
constexpr unsigned kMappedLater =
    0x40 | 0x80;  // sparse, or mapped by cuMemMapArrayAsync: no memory of its own

std::uint64_t element_bytes(int format, unsigned channels) {
  const bool one = format == 0x01 || format == 0x08;
  const bool two = format == 0x02 || format == 0x09 || format == 0x10;
  // Others have at most four bytes in a channel.
  return (one ? 1U : two ? 2U : 4U) * std::uint64_t{channels};
}

// Blocks of 64 bytes and 8 to 128 rows, in 8 layers of a volume. No call tells the size of an
// ordinary array, and this is not less than what was seen for all shapes that were tried.
template <class Size>
std::uint64_t level_bytes(const Array3dDescriptor<Size>& array, unsigned level) {
  const auto side = [&](std::uint64_t full) { return full >> level == 0 ? 1 : full >> level; };
  const bool layered = (array.flags & kLayered) != 0;
  const std::uint64_t row =
      rounded_up(product(side(array.width), element_bytes(array.format, array.channels)), 64);
  const std::uint64_t depth = array.depth <= 1 ? 1
                              : layered        ? std::uint64_t{array.depth}
                                               : rounded_up(side(array.depth), 8);
  std::uint64_t rows = 8;
  while (rows < 128 && rows < side(array.height)) rows *= 2;
  return product(product(row, rounded_up(side(array.height), rows)), depth);
}

template <class Size>
std::uint64_t array_bytes(const Array3dDescriptor<Size>* array, unsigned levels) {
  if (array == nullptr || (array->flags & kMappedLater) != 0) return 0;
  std::uint64_t sum = 0;
  for (unsigned level = 0; level < levels && level < 64; ++level) {
    const std::uint64_t bytes = level_bytes(*array, level);
    if (bytes > ~std::uint64_t{0} - sum) return ~std::uint64_t{0};
    sum += bytes;
  }
  return sum;
}

template <class Size>
std::uint64_t array_bytes(const ArrayDescriptor<Size>* array) {
  if (array == nullptr) return 0;
  const Array3dDescriptor<Size> flat{.width = array->width,
                                     .height = array->height,
                                     .depth = 0,
                                     .format = array->format,
                                     .channels = array->channels,
                                     .flags = 0};
  return array_bytes(&flat, 1);
}

}  // namespace

void forget_linear_memory() {
  const Lock lock(mutex);
  managed = {};
  blocks.clear();
  chunks.clear();
}

void free_memory_of(Handle context) {
  const Lock lock(mutex);
  blocks.erase_if([&](std::uint64_t key, const Block& block) {
    if (block.context == context) remove(key, block);
    return block.context == context;
  });
}

void rename_context(Handle context, Handle other) {
  const Lock lock(mutex);
  blocks.for_each([&](std::uint64_t, Block& block) {
    if (block.context == context) block.context = other;
  });
}

void keep_block_at(Address address) {
  const Lock lock(mutex);
  blocks.erase_if([&](std::uint64_t at, const Block& block) {
    return address >= at && address - at < block.bytes;
  });
}

// --- the driver's functions ------------------------------------------------------------

Result cuMemAlloc(OldAddress* address, unsigned bytes) {
  return allocate(address, bytes, Place::kMayShareChunk,
                  [&] { return REAL(cuMemAlloc)(address, bytes); });
}

Result cuMemAlloc_v2(Address* address, std::size_t bytes) {
  return allocate(address, bytes, Place::kMayShareChunk,
                  [&] { return REAL(cuMemAlloc_v2)(address, bytes); });
}

Result cuMemAllocPitch(OldAddress* address, unsigned* pitch, unsigned width, unsigned height,
                       unsigned element) {
  return allocate(address, pitched(width, height), Place::kMayShareChunk,
                  [&] { return REAL(cuMemAllocPitch)(address, pitch, width, height, element); });
}

Result cuMemAllocPitch_v2(Address* address, std::size_t* pitch, std::size_t width,
                          std::size_t height, unsigned element) {
  return allocate(address, pitched(width, height), Place::kMayShareChunk,
                  [&] { return REAL(cuMemAllocPitch_v2)(address, pitch, width, height, element); });
}

// It counts in full from the start, although the driver puts it on the card when it is used, and on
// all cards, since it goes to the one that uses it.
Result cuMemAllocManaged(Address* address, std::size_t bytes, unsigned flags) {
  return allocate(address, bytes, Place::kEveryCard,
                  [&] { return REAL(cuMemAllocManaged)(address, bytes, flags); });
}

Result cuMemFree(OldAddress address) {
  return free_block(address, [&] { return REAL(cuMemFree)(address); });
}

Result cuMemFree_v2(Address address) {
  return free_block(address, [&] { return REAL(cuMemFree_v2)(address); });
}

// Memory that is not of a pool may be freed so, and comes back when the stream is there. It is
// freed at once instead, which waits for the stream.
namespace {
Result free_async(Address address, Handle stream, Result (*call)(Address, Handle)) {
  if (!cards_attached()) return call(address, stream);
  bool linear = false;
  {
    const Lock lock(mutex);
    linear = blocks.find(address) != nullptr;
  }
  return linear ? cuMemFree_v2(address) : call(address, stream);
}
}  // namespace

Result cuMemFreeAsync(Address address, Handle stream) {
  return free_async(address, stream, REAL(cuMemFreeAsync));
}

Result cuMemFreeAsync_ptsz(Address address, Handle stream) {
  return free_async(address, stream, REAL(cuMemFreeAsync_ptsz));
}

// Memory of another process counts for both, because it stays on the card until the last of them is
// done with it.
Result cuIpcOpenMemHandle(Address* address, IpcHandle handle, unsigned flags) {
  return import(address, [&] { return REAL(cuIpcOpenMemHandle)(address, handle, flags); });
}

Result cuIpcOpenMemHandle_v2(Address* address, IpcHandle handle, unsigned flags) {
  return import(address, [&] { return REAL(cuIpcOpenMemHandle_v2)(address, handle, flags); });
}

Result cuIpcCloseMemHandle(Address address) {
  return free_block(address, [&] { return REAL(cuIpcCloseMemHandle)(address); });
}

Result cuArrayCreate(Handle* array, const ArrayDescriptor<unsigned>* descriptor) {
  return allocate(array, array_bytes(descriptor), Place::kOwnChunks,
                  [&] { return REAL(cuArrayCreate)(array, descriptor); });
}

Result cuArrayCreate_v2(Handle* array, const ArrayDescriptor<std::size_t>* descriptor) {
  return allocate(array, array_bytes(descriptor), Place::kOwnChunks,
                  [&] { return REAL(cuArrayCreate_v2)(array, descriptor); });
}

Result cuArray3DCreate(Handle* array, const Array3dDescriptor<unsigned>* descriptor) {
  return allocate(array, array_bytes(descriptor, 1), Place::kOwnChunks,
                  [&] { return REAL(cuArray3DCreate)(array, descriptor); });
}

Result cuArray3DCreate_v2(Handle* array, const Array3dDescriptor<std::size_t>* descriptor) {
  return allocate(array, array_bytes(descriptor, 1), Place::kOwnChunks,
                  [&] { return REAL(cuArray3DCreate_v2)(array, descriptor); });
}

Result cuArrayDestroy(Handle array) {
  return free_block(key_of(array), [&] { return REAL(cuArrayDestroy)(array); });
}

Result cuMipmappedArrayCreate(Handle* array, const Array3dDescriptor<std::size_t>* descriptor,
                              unsigned levels) {
  return allocate(array, array_bytes(descriptor, levels), Place::kOwnChunks,
                  [&] { return REAL(cuMipmappedArrayCreate)(array, descriptor, levels); });
}

Result cuMipmappedArrayDestroy(Handle array) {
  return free_block(key_of(array), [&] { return REAL(cuMipmappedArrayDestroy)(array); });
}

}  // namespace mgpu::share
