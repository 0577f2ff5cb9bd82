// Linear memory, managed memory, arrays.
//
// The driver takes memory in chunks of 2 MiB: one or more for each allocation of over 1 MiB, and
// one for many smaller ones (seen on an H200 with driver 580.159.04). Small ones count by size, in
// classes of powers of two: a class has the chunks of the most pieces that it had at once, until it
// has none. So chunks that are kept by one piece each count.
#include "plugin/share/memory.h"

#include "plugin/share/table.h"

namespace mgpu::share {
namespace {

constexpr std::uint64_t kChunk = std::uint64_t{2} << 20U;
constexpr std::uint64_t kSmallMax = std::uint64_t{1} << 20U;
constexpr std::uint64_t kSmallMin = 512;
constexpr unsigned kClasses = 12;  // 512 bytes to 1 MiB

struct Block {
  Handle context;
  unsigned card;
  unsigned small_class;  // kClasses: it has chunks of its own
  std::uint64_t bytes;
};

// The small pieces of a context, which share chunks.
struct Pieces {
  unsigned card;
  std::uint64_t count[kClasses];
  std::uint64_t chunks[kClasses];
};

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
Table<Block> blocks;   // by address, or by the handle of an array
Table<Pieces> pieces;  // by context

std::uint64_t key_of(const void* handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}

std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t step) {
  return bytes > ~std::uint64_t{0} - step ? ~std::uint64_t{0} : (bytes + step - 1) / step * step;
}

unsigned class_of(std::uint64_t bytes) {
  unsigned small_class = 0;
  while (small_class < kClasses && (kSmallMin << small_class) < bytes) ++small_class;
  return small_class;
}

bool add_piece(Card& card, const Block& block) {
  Pieces* const of_context = pieces.insert(key_of(block.context));
  if (of_context == nullptr) return false;
  of_context->card = block.card;
  std::uint64_t& count = of_context->count[block.small_class];
  std::uint64_t& chunks = of_context->chunks[block.small_class];
  const std::uint64_t pieces_in_chunk = kChunk / (kSmallMin << block.small_class);
  if (count + 1 > chunks * pieces_in_chunk) {
    if (!reserve(card, kChunk)) return false;
    ++chunks;
  }
  ++count;
  return true;
}

void remove_piece(const Block& block) {
  Pieces* const of_context = pieces.find(key_of(block.context));
  if (of_context == nullptr || of_context->count[block.small_class] == 0) return;
  if (--of_context->count[block.small_class] > 0) return;
  card_at(block.card).account.give_back(of_context->chunks[block.small_class] * kChunk);
  of_context->chunks[block.small_class] = 0;
}

bool add(Card& card, const Block& block) {
  const Lock lock(mutex);
  return block.small_class < kClasses ? add_piece(card, block) : reserve(card, block.bytes);
}

void remove(const Block& block) {
  if (block.small_class < kClasses) {
    remove_piece(block);
  } else {
    card_at(block.card).account.give_back(block.bytes);
  }
}

Block block_of(const Card& card, std::uint64_t bytes, bool own_chunks) {
  Block block{.context = nullptr,
              .card = index_of(card),
              .small_class = own_chunks || bytes > kSmallMax ? kClasses : class_of(bytes),
              .bytes = rounded_up(bytes, kChunk)};
  REAL(cuCtxGetCurrent)(&block.context);
  return block;
}

// Reserves, calls the driver, and remembers what it has allocated by the key that it returns.
template <class Key, class Call>
Result allocate(Key* key, std::uint64_t bytes, bool own_chunks, Call call) {
  if (bytes == 0 || key == nullptr) return call();  // an error of the driver
  Card* const card = current_card();
  if (card == nullptr) return no_card();
  const Block block = block_of(*card, bytes, own_chunks);
  if (!add(*card, block)) return kOutOfMemory;
  const Result result = call();
  const Lock lock(mutex);
  if (result != kSuccess) {
    remove(block);
  } else if (Block* const known = blocks.insert((std::uint64_t)*key); known != nullptr) {
    // A key that is known was freed with its context, by a call that was not seen.
    if (known->bytes != 0) remove(*known);
    *known = block;
  }
  return result;
}

// The block is forgotten first, since the driver may give its address to another thread at once.
template <class Call>
Result free_block(std::uint64_t key, Call call) {
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
    remove(block);
  } else if (Block* const again = blocks.insert(key); again != nullptr) {
    *again = block;
  }
  return result;
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

// Blocks of 64 bytes and 128 rows, in 8 layers of a volume. No call tells the size of an ordinary
// array, and this is not less than what was seen for all shapes that were tried.
template <class Size>
std::uint64_t level_bytes(const Array3dDescriptor<Size>& array, unsigned level) {
  const auto side = [&](std::uint64_t full) { return full >> level == 0 ? 1 : full >> level; };
  const bool layered = (array.flags & kLayered) != 0;
  const std::uint64_t row =
      rounded_up(product(side(array.width), element_bytes(array.format, array.channels)), 64);
  const std::uint64_t depth = array.depth <= 1 ? 1
                              : layered        ? std::uint64_t{array.depth}
                                               : rounded_up(side(array.depth), 8);
  return product(product(row, rounded_up(side(array.height), 128)), depth);
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
  blocks.clear();
  pieces.clear();
}

void free_memory_of(Handle context) {
  const Lock lock(mutex);
  blocks.erase_if([&](std::uint64_t, const Block& block) {
    if (block.context == context) remove(block);
    return block.context == context;
  });
  pieces.erase(key_of(context));
}

// --- the driver's functions ------------------------------------------------------------

Result cuMemAlloc(OldAddress* address, unsigned bytes) {
  return allocate(address, bytes, false, [&] { return REAL(cuMemAlloc)(address, bytes); });
}

Result cuMemAlloc_v2(Address* address, std::size_t bytes) {
  return allocate(address, bytes, false, [&] { return REAL(cuMemAlloc_v2)(address, bytes); });
}

Result cuMemAllocPitch(OldAddress* address, unsigned* pitch, unsigned width, unsigned height,
                       unsigned element) {
  return allocate(address, pitched(width, height), false,
                  [&] { return REAL(cuMemAllocPitch)(address, pitch, width, height, element); });
}

Result cuMemAllocPitch_v2(Address* address, std::size_t* pitch, std::size_t width,
                          std::size_t height, unsigned element) {
  return allocate(address, pitched(width, height), false,
                  [&] { return REAL(cuMemAllocPitch_v2)(address, pitch, width, height, element); });
}

// It counts in full from the start, although the driver puts it on the card when it is used.
Result cuMemAllocManaged(Address* address, std::size_t bytes, unsigned flags) {
  return allocate(address, bytes, true,
                  [&] { return REAL(cuMemAllocManaged)(address, bytes, flags); });
}

Result cuMemFree(OldAddress address) {
  return free_block(address, [&] { return REAL(cuMemFree)(address); });
}

Result cuMemFree_v2(Address address) {
  return free_block(address, [&] { return REAL(cuMemFree_v2)(address); });
}

Result cuArrayCreate(Handle* array, const ArrayDescriptor<unsigned>* descriptor) {
  return allocate(array, array_bytes(descriptor), true,
                  [&] { return REAL(cuArrayCreate)(array, descriptor); });
}

Result cuArrayCreate_v2(Handle* array, const ArrayDescriptor<std::size_t>* descriptor) {
  return allocate(array, array_bytes(descriptor), true,
                  [&] { return REAL(cuArrayCreate_v2)(array, descriptor); });
}

Result cuArray3DCreate(Handle* array, const Array3dDescriptor<unsigned>* descriptor) {
  return allocate(array, array_bytes(descriptor, 1), true,
                  [&] { return REAL(cuArray3DCreate)(array, descriptor); });
}

Result cuArray3DCreate_v2(Handle* array, const Array3dDescriptor<std::size_t>* descriptor) {
  return allocate(array, array_bytes(descriptor, 1), true,
                  [&] { return REAL(cuArray3DCreate_v2)(array, descriptor); });
}

Result cuArrayDestroy(Handle array) {
  return free_block(key_of(array), [&] { return REAL(cuArrayDestroy)(array); });
}

Result cuMipmappedArrayCreate(Handle* array, const Array3dDescriptor<std::size_t>* descriptor,
                              unsigned levels) {
  return allocate(array, array_bytes(descriptor, levels), true,
                  [&] { return REAL(cuMipmappedArrayCreate)(array, descriptor, levels); });
}

Result cuMipmappedArrayDestroy(Handle array) {
  return free_block(key_of(array), [&] { return REAL(cuMipmappedArrayDestroy)(array); });
}

}  // namespace mgpu::share
