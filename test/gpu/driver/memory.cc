#include "test/gpu/driver/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "test/gpu/driver/graphs.h"
#include "test/gpu/driver/pools.h"
#include "test/gpu/driver/process.h"

namespace mgpu::fake_gpu {
namespace {

constexpr std::uint64_t kSmallUnit = 512;

}  // namespace

// --- addresses -----------------------------------------------------------------------------------

Addresses::Addresses(std::uint64_t bytes, bool for_host) : bytes_(round_up(bytes, kPage)) {
  if (bytes > kMemoryMax) return;
  const auto map = [&](std::uint64_t size) {
    void* const all = ::mmap(nullptr, size, for_host ? PROT_READ | PROT_WRITE : PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return all != MAP_FAILED ? reinterpret_cast<Pointer>(all) : 0;
  };
  begin_ = map(bytes_);
  if (begin_ % kPage == 0) return;  // Linux 6.7 and newer align it
  ::munmap(reinterpret_cast<void*>(begin_), bytes_);
  const Pointer first = map(bytes_ + kPage);
  begin_ = round_up(first, kPage);
  // What is beside the aligned part.
  if (begin_ > first) ::munmap(reinterpret_cast<void*>(first), begin_ - first);
  const std::uint64_t after = first + kPage - begin_;
  if (first != 0 && after > 0) ::munmap(reinterpret_cast<void*>(begin_ + bytes_), after);
}

Addresses::~Addresses() {
  if (begin_ != 0) ::munmap(reinterpret_cast<void*>(begin_), bytes_);
}

// --- blocks --------------------------------------------------------------------------------------

BlockPointer take_block(int card, std::uint64_t bytes, Account account) {
  const auto take = [&] {
    return may_take(card, bytes) && process().machine->take(card, bytes, account);
  };
  if (!take()) {
    give_unused_back(card);
    if (!take()) return nullptr;
  }
  return std::make_shared<Block>(card, bytes, account);
}

Block::~Block() {
  if (card < 0) return;
  if (shared.index >= 0) {
    process().machine->drop(shared);
  } else {
    process().machine->give_back(card, bytes, account);
  }
}

unsigned char* Block::data() {
  if (bytes > kKeptMax) return nullptr;
  if (data_ == nullptr) data_ = std::make_unique<Addresses>(bytes, true);
  return reinterpret_cast<unsigned char*>(data_->begin());
}

namespace {

// The shared blocks of this process, by their IDs. Two of one ID would both end its share.
std::map<std::uint64_t, std::weak_ptr<Block>>& shared_blocks() {
  static auto& blocks = *new std::map<std::uint64_t, std::weak_ptr<Block>>;
  std::erase_if(blocks, [](const auto& item) { return item.second.expired(); });
  return blocks;
}

}  // namespace

bool share_block(const BlockPointer& block) {
  if (block->shared.index >= 0) return true;
  block->shared = process().machine->share(block->card, block->bytes);
  if (block->shared.index < 0) return false;
  shared_blocks()[block->shared.id] = block;
  return true;
}

BlockPointer shared_block(const SharedMemory& shared) {
  const auto known = shared_blocks().find(shared.id);
  if (known != shared_blocks().end()) return known->second.lock();
  std::uint64_t bytes = 0;
  const int card = process().machine->hold(shared, bytes);
  if (card < 0) return nullptr;
  auto block = std::make_shared<Block>(card, bytes, Account::charged);
  block->shared = shared;
  shared_blocks()[shared.id] = block;
  return block;
}

// --- ranges --------------------------------------------------------------------------------------

Range* find_range(Pointer at, std::uint64_t bytes, Pointer* begin) {
  auto& ranges = process().ranges;
  const auto next = ranges.upper_bound(at);
  if (next == ranges.begin()) return nullptr;
  auto& [first, range] = *std::prev(next);
  const std::uint64_t offset = at - first;
  if (offset >= range.bytes || bytes > range.bytes - offset) return nullptr;
  if (begin != nullptr) *begin = first;
  return &range;
}

void add_range(Pointer at, Range range) {
  range.id = ++process().last_id;
  process().ranges[at] = std::move(range);
}

bool free_range(Pointer at) {
  const auto found = process().ranges.find(at);
  if (found == process().ranges.end()) return false;
  const Range range = std::move(found->second);
  process().ranges.erase(found);
  if (range.pool != nullptr) return_to_pool(*range.pool, range.bytes);
  if (range.kind == Kind::graph) return_to_graphs(range.context->card, range.bytes);
  if (range.kind != Kind::device || range.context == nullptr) return true;
  range.context->small.free(range.block.get(), range.offset);
  range.context->globals.free(range.block.get(), range.offset);
  return true;
}

// --- small allocations ---------------------------------------------------------------------------

SmallPieces::Piece SmallPieces::allocate(int card, std::uint64_t bytes) {
  const std::uint64_t size = round_up(bytes, kSmallUnit);
  for (Chunk& chunk : chunks_) {
    std::uint64_t offset = 0;
    for (const auto& [begin, length] : chunk.used) {
      if (begin - offset >= size) break;
      offset = begin + length;
    }
    if (kPage - offset < size) continue;
    chunk.used[offset] = size;
    return {chunk.block, chunk.addresses, offset};
  }
  const BlockPointer block = take_block(card, kPage);
  if (block == nullptr) return {};
  Chunk& chunk = chunks_.emplace_back(Chunk{block, std::make_shared<Addresses>(kPage, false), {}});
  chunk.used[0] = size;
  return {chunk.block, chunk.addresses, 0};
}

void SmallPieces::free(const Block* block, std::uint64_t offset) {
  const auto found = std::find_if(chunks_.begin(), chunks_.end(),
                                  [&](const Chunk& chunk) { return chunk.block.get() == block; });
  if (found == chunks_.end()) return;
  found->used.erase(offset);
  if (found->used.empty()) chunks_.erase(found);
}

bool SmallPieces::has(const Block* block) const {
  return std::any_of(chunks_.begin(), chunks_.end(),
                     [&](const Chunk& chunk) { return chunk.block.get() == block; });
}

Pointer allocate(Context& context, SmallPieces& pieces, std::uint64_t bytes) {
  if (bytes > kMemoryMax) return 0;
  Range range{.bytes = bytes, .kind = Kind::device, .context = &context};
  if (bytes <= kSmallMax) {
    const SmallPieces::Piece piece = pieces.allocate(context.card, bytes);
    range.block = piece.block;
    range.addresses = piece.addresses;
    range.offset = piece.offset;
  } else {
    range.block = take_block(context.card, round_up(bytes, kPage));
    range.addresses = std::make_shared<Addresses>(bytes, false);
  }
  if (range.block == nullptr || range.addresses->begin() == 0) return 0;
  const Pointer at = range.addresses->begin() + range.offset;
  add_range(at, std::move(range));
  return at;
}

}  // namespace mgpu::fake_gpu
