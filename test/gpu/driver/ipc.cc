// Memory of cuMemAlloc that another process opens by a handle of 64 bytes.
#include <cstring>

#include "test/gpu/driver/process.h"

using namespace mgpu::fake_gpu;

namespace mgpu::fake_gpu {
namespace {

// CUipcMemHandle
struct IpcHandle {
  char bytes[64];
};

struct IpcContents {
  char magic[8];
  int index;
  std::uint64_t id;
  std::uint64_t offset;
  std::uint64_t bytes;
};
static_assert(sizeof(IpcContents) <= sizeof(IpcHandle));
constexpr char kIpcMagic[8] = "fakeipc";

bool is_own(const SharedMemory& shared) {
  for (const auto& [at, range] : process().ranges) {
    const bool own = range.kind == Kind::device && range.block != nullptr;
    if (own && range.block->shared.id == shared.id) return true;
  }
  return false;
}

}  // namespace
}  // namespace mgpu::fake_gpu

FAKE_CUDA int cuIpcGetMemHandle(IpcHandle* handle, Pointer pointer) {
  return in_context([&](Context&) {
    Pointer begin = 0;
    const Range* const range = find_range(pointer, 1, &begin);
    if (handle == nullptr || range == nullptr || range->kind != Kind::device) return kInvalidValue;
    if (!share_block(range->block)) return kOutOfMemory;
    IpcContents contents{
        {}, range->block->shared.index, range->block->shared.id, range->offset, range->bytes};
    std::memcpy(contents.magic, kIpcMagic, sizeof kIpcMagic);
    std::memset(handle, 0, sizeof *handle);
    std::memcpy(handle, &contents, sizeof contents);
    return kSuccess;
  });
}

// Not in the process that has the memory.
FAKE_CUDA int cuIpcOpenMemHandle_v2(Pointer* pointer, IpcHandle handle, unsigned flags) {
  return in_context([&](Context& context) {
    IpcContents contents{};
    std::memcpy(&contents, &handle, sizeof contents);
    const bool good = std::memcmp(contents.magic, kIpcMagic, sizeof kIpcMagic) == 0;
    if (pointer == nullptr || flags != 1 || !good) return kInvalidValue;
    if (is_own({contents.index, contents.id})) return kInvalidContext;
    BlockPointer block = shared_block({contents.index, contents.id});
    if (block == nullptr) return kInvalidValue;
    auto addresses = std::make_shared<Addresses>(block->bytes, false);
    *pointer = addresses->begin() + contents.offset;
    if (addresses->begin() == 0) return kOutOfMemory;
    add_range(*pointer, {.bytes = contents.bytes,
                         .kind = Kind::imported,
                         .context = &context,
                         .block = std::move(block),
                         .offset = contents.offset,
                         .addresses = std::move(addresses)});
    return kSuccess;
  });
}

FAKE_CUDA int cuIpcCloseMemHandle(Pointer pointer) {
  return in_context([&](Context&) {
    Pointer begin = 0;
    const Range* const range = find_range(pointer, 1, &begin);
    const bool open = range != nullptr && begin == pointer && range->kind == Kind::imported;
    return open && free_range(pointer) ? kSuccess : kInvalidValue;
  });
}
