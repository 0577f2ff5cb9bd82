// The memory of the fake driver: physical blocks, addresses, and what programs have at them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include "test/gpu/machine.h"

namespace mgpu::fake_gpu {

using Pointer = std::uint64_t;  // CUdeviceptr

// Physical memory comes in pages of this size.
inline constexpr std::uint64_t kPage = 2 * kMiB;
// Allocations and arrays of up to this share pages.
inline constexpr std::uint64_t kSmallMax = kMiB;
// Data of a larger block is not kept: what is written is lost, and zeros are read.
inline constexpr std::uint64_t kKeptMax = 64 * kMiB;

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Addresses of this process, which nothing else has meanwhile. Programs cannot read device memory
// without a copy, so unless `for_host` an access ends the program, as with a card.
class Addresses {
 public:
  Addresses(std::uint64_t bytes, bool for_host);
  ~Addresses();
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;

  // 0 if this process has no addresses left.
  Pointer begin() const { return begin_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  Pointer begin_ = 0;
  std::uint64_t bytes_ = 0;
};

// Physical memory of a card, or of the host if `card` is negative. It is given back with its last
// holder in this process; of shared memory, with the last holder in any.
class Block {
 public:
  // Takes nothing; it has been taken.
  Block(int its_card, std::uint64_t its_bytes, Account its_account)
      : card(its_card), bytes(its_bytes), account(its_account) {}
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // Null if the data is not kept.
  unsigned char* data();

  const int card;
  const std::uint64_t bytes;
  const Account account;
  SharedMemory shared;

 private:
  std::unique_ptr<Addresses> data_;
};
using BlockPointer = std::shared_ptr<Block>;

// Null if less is free, also after the unused memory of this process's pools is given back.
BlockPointer take_block(int card, std::uint64_t bytes, Account account = Account::charged);

// Makes it shared, if it is not yet. Returns false if there is already too much of it.
bool share_block(const BlockPointer& block);
// The memory of another process, or that of this one; null if it is gone.
BlockPointer shared_block(const SharedMemory& shared);

enum class Kind { device, managed, host, pooled, graph, mapped, imported };

struct Context;
struct Pool;

// What a program has at an address.
struct Range {
  std::uint64_t bytes = 0;
  Kind kind = Kind::device;
  Context* context = nullptr;  // it ends with it; null for mapped memory
  BlockPointer block{};
  std::uint64_t offset = 0;  // in the block
  std::shared_ptr<Addresses> addresses{};
  std::uint64_t id = 0;
  Pool* pool = nullptr;
  // Of mapped memory.
  int access = 0;
  int handle_types = 0;
};

// A range around an address; null if there is none with so many bytes after it.
Range* find_range(Pointer at, std::uint64_t bytes, Pointer* begin = nullptr);
void add_range(Pointer at, Range range);

// Where the data of a range is. Managed memory is taken, because the card touches it.
struct Place {
  bool known = false;
  unsigned char* data = nullptr;  // null if the data is not kept
};
Place device_place(Pointer at, std::uint64_t bytes);
// Ends whatever begins at this address. Returns false if nothing does.
bool free_range(Pointer at);

// Allocations of up to kSmallMax, several in a page.
class SmallPieces {
 public:
  struct Piece {
    BlockPointer block{};
    std::shared_ptr<Addresses> addresses{};
    std::uint64_t offset = 0;
  };
  // Without a block if there is no memory.
  Piece allocate(int card, std::uint64_t bytes);
  void free(const Block* block, std::uint64_t offset);
  bool has(const Block* block) const;

 private:
  struct Chunk {
    BlockPointer block;
    std::shared_ptr<Addresses> addresses;
    std::map<std::uint64_t, std::uint64_t> used;  // offsets and sizes
  };
  std::list<Chunk> chunks_;
};

// Device memory as cuMemAlloc allocates it: from `pieces`, or in whole pages. Null without memory.
Pointer allocate(Context& context, SmallPieces& pieces, std::uint64_t bytes);

}  // namespace mgpu::fake_gpu
