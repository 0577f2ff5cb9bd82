// Virtual memory: physical memory by its handle, addresses, and mappings. The memory is given back
// with the last of its references, mappings and, in other processes, imports.
#include <algorithm>
#include <iterator>

#include "test/gpu/driver/faults.h"
#include "test/gpu/driver/process.h"

using namespace mgpu::fake_gpu;

namespace mgpu::fake_gpu {
namespace {

// CUmemLocation; type 1 is a device.
struct Location {
  int type;
  int id;
};

// CUmemAllocationProp
struct Properties {
  int type;  // 1 is pinned memory
  int handle_types;
  Location location;
  void* security;
  unsigned char flags[8];
};

struct AccessDescription {
  Location location;
  int flags;
};

struct Physical {
  BlockPointer block;
  Properties properties{};
  int references = 0;
};

constexpr int kFileHandle = 1;  // of handle_types

struct State {
  std::map<std::uint64_t, Physical> handles;
  std::map<Pointer, std::shared_ptr<Addresses>> reserved;
};

State& virtual_state() {
  static State& state = *new State;
  return state;
}

int physical_with(std::uint64_t handle, Physical** found) {
  auto& handles = virtual_state().handles;
  const auto at = handles.find(handle);
  if (at == handles.end()) return kInvalidValue;
  *found = &at->second;
  return kSuccess;
}

std::uint64_t add_handle(BlockPointer block, const Properties& properties) {
  const std::uint64_t handle = ++process().last_id;
  virtual_state().handles[handle] = {std::move(block), properties, 1};
  return handle;
}

// Of memory that is mapped, and whose handle has been released.
Properties properties_of(const Range& range) {
  const int card = range.block->card;
  return {1, range.handle_types, {card >= 0 ? 1 : 2, std::max(card, 0)}, nullptr, {}};
}

bool is_good(const Properties* wanted) {
  return wanted != nullptr && wanted->type == 1 &&
         (wanted->location.type != 1 || is_device(wanted->location.id));
}

// The mappings that cover exactly these addresses; empty if they do not.
std::vector<Pointer> mappings_of(Pointer at, std::uint64_t bytes) {
  std::vector<Pointer> found;
  const auto& ranges = process().ranges;
  Pointer next = at;
  for (auto range = ranges.find(at); range != ranges.end() && next < at + bytes; ++range) {
    if (range->first != next || range->second.kind != Kind::mapped) return {};
    found.push_back(next);
    next += range->second.bytes;
  }
  return next == at + bytes ? found : std::vector<Pointer>{};
}

std::shared_ptr<Addresses> reservation_of(Pointer at, std::uint64_t bytes) {
  for (const auto& [begin, addresses] : virtual_state().reserved) {
    if (at >= begin && bytes <= addresses->bytes() && at - begin <= addresses->bytes() - bytes) {
      return addresses;
    }
  }
  return nullptr;
}

bool is_free(Pointer at, std::uint64_t bytes) {
  const auto& ranges = process().ranges;
  const auto next = ranges.lower_bound(at);
  return find_range(at, 1) == nullptr && (next == ranges.end() || next->first >= at + bytes);
}

bool is_in_pages(std::uint64_t value) {
  return value != 0 && value % kPage == 0 && value <= kMemoryMax;
}

}  // namespace
}  // namespace mgpu::fake_gpu

FAKE_CUDA int cuMemGetAllocationGranularity(std::size_t* bytes, const Properties* wanted, int) {
  return initialized([&] {
    if (bytes == nullptr || !is_good(wanted)) return kInvalidValue;
    *bytes = kPage;
    return kSuccess;
  });
}

FAKE_CUDA int cuMemCreate(std::uint64_t* handle, std::size_t bytes, const Properties* wanted,
                          std::uint64_t flags) {
  return initialized([&] {
    if (handle == nullptr || flags != 0 || !is_good(wanted)) return kInvalidValue;
    if (bytes % kPage != 0 || bytes == 0) return kInvalidValue;
    if (bytes > kMemoryMax) return kOutOfMemory;
    if (refuses("virtual")) return kIllegalState;
    const bool on_card = wanted->location.type == 1;
    BlockPointer block = on_card ? take_block(wanted->location.id, bytes)
                                 : std::make_shared<Block>(-1, bytes, Account::charged);
    if (block == nullptr) return kOutOfMemory;
    *handle = add_handle(std::move(block), *wanted);
    return kSuccess;
  });
}

FAKE_CUDA int cuMemRelease(std::uint64_t handle) {
  return initialized([&] {
    Physical* physical = nullptr;
    if (physical_with(handle, &physical) != kSuccess) return kInvalidValue;
    if (--physical->references == 0) virtual_state().handles.erase(handle);
    return kSuccess;
  });
}

FAKE_CUDA int cuMemRetainAllocationHandle(std::uint64_t* handle, void* address) {
  return initialized([&] {
    const Range* const range = find_range(reinterpret_cast<Pointer>(address), 1);
    if (handle == nullptr || range == nullptr || range->kind != Kind::mapped) return kInvalidValue;
    for (auto& [known, physical] : virtual_state().handles) {
      if (physical.block != range->block) continue;
      ++physical.references;
      *handle = known;
      return kSuccess;
    }
    *handle = add_handle(range->block, properties_of(*range));
    return kSuccess;
  });
}

FAKE_CUDA int cuMemGetAllocationPropertiesFromHandle(Properties* properties, std::uint64_t handle) {
  return initialized([&] {
    Physical* physical = nullptr;
    if (properties == nullptr || physical_with(handle, &physical) != kSuccess) return kInvalidValue;
    *properties = physical->properties;
    return kSuccess;
  });
}

// --- addresses -----------------------------------------------------------------------------------

FAKE_CUDA int cuMemAddressReserve(Pointer* pointer, std::size_t bytes, std::size_t, Pointer,
                                  std::uint64_t flags) {
  return initialized([&] {
    if (pointer == nullptr || flags != 0 || !is_in_pages(bytes)) return kInvalidValue;
    auto addresses = std::make_shared<Addresses>(bytes, false);
    *pointer = addresses->begin();
    if (*pointer == 0) return kOutOfMemory;
    virtual_state().reserved[*pointer] = std::move(addresses);
    return kSuccess;
  });
}

FAKE_CUDA int cuMemAddressFree(Pointer pointer, std::size_t bytes) {
  return initialized([&] {
    auto& reserved = virtual_state().reserved;
    const auto found = reserved.find(pointer);
    if (found == reserved.end() || found->second->bytes() != bytes) return kInvalidValue;
    if (!is_free(pointer, bytes)) return kInvalidValue;
    reserved.erase(found);
    return kSuccess;
  });
}

// --- mappings ------------------------------------------------------------------------------------

FAKE_CUDA int cuMemMap(Pointer pointer, std::size_t bytes, std::size_t offset, std::uint64_t handle,
                       std::uint64_t flags) {
  return initialized([&] {
    Physical* physical = nullptr;
    if (physical_with(handle, &physical) != kSuccess) return kInvalidValue;
    const auto addresses = reservation_of(pointer, bytes);
    if (addresses == nullptr || flags != 0 || offset != 0 || !is_in_pages(bytes)) {
      return kInvalidValue;
    }
    if (pointer % kPage != 0 || bytes > physical->block->bytes || !is_free(pointer, bytes)) {
      return kInvalidValue;
    }
    add_range(pointer, {.bytes = bytes,
                        .kind = Kind::mapped,
                        .block = physical->block,
                        .addresses = addresses,
                        .handle_types = physical->properties.handle_types});
    return kSuccess;
  });
}

FAKE_CUDA int cuMemUnmap(Pointer pointer, std::size_t bytes) {
  return initialized([&] {
    const std::vector<Pointer> mappings = mappings_of(pointer, bytes);
    for (const Pointer at : mappings) free_range(at);
    return mappings.empty() ? kInvalidValue : kSuccess;
  });
}

FAKE_CUDA int cuMemSetAccess(Pointer pointer, std::size_t bytes,
                             const AccessDescription* descriptions, std::size_t count) {
  return initialized([&] {
    const std::vector<Pointer> mappings = mappings_of(pointer, bytes);
    if (mappings.empty() || descriptions == nullptr || count == 0) return kInvalidValue;
    for (const Pointer at : mappings) process().ranges[at].access = descriptions[0].flags;
    return kSuccess;
  });
}

FAKE_CUDA int cuMemGetAccess(std::uint64_t* flags, const Location*, Pointer pointer) {
  return initialized([&] {
    const Range* const range = find_range(pointer, 1);
    if (flags == nullptr || range == nullptr || range->kind != Kind::mapped) return kInvalidValue;
    *flags = static_cast<std::uint64_t>(range->access);
    return kSuccess;
  });
}

// --- other processes -----------------------------------------------------------------------------

FAKE_CUDA int cuMemExportToShareableHandle(void* result, std::uint64_t handle, int type,
                                           std::uint64_t flags) {
  return initialized([&] {
    Physical* physical = nullptr;
    if (physical_with(handle, &physical) != kSuccess || result == nullptr) return kInvalidValue;
    if (type != kFileHandle) return kNotSupported;
    if ((physical->properties.handle_types & kFileHandle) == 0 || flags != 0) return kInvalidValue;
    if (physical->block->card < 0) return kNotSupported;
    if (!share_block(physical->block)) return kOutOfMemory;
    const int file = process().machine->export_file(physical->block->shared);
    *static_cast<int*>(result) = file;
    return file >= 0 ? kSuccess : kOutOfMemory;
  });
}

FAKE_CUDA int cuMemImportFromShareableHandle(std::uint64_t* handle, void* exported, int type) {
  return initialized([&] {
    if (handle == nullptr || type != kFileHandle) return kInvalidValue;
    const int file = static_cast<int>(reinterpret_cast<std::intptr_t>(exported));
    const SharedMemory shared = process().machine->imported(file);
    if (shared.index < 0) return kInvalidValue;
    BlockPointer block = shared_block(shared);
    if (block == nullptr) return kInvalidValue;
    const Properties properties{1, kFileHandle, {1, block->card}, nullptr, {}};
    *handle = add_handle(std::move(block), properties);
    return kSuccess;
  });
}
