// Memory of the card, managed memory and host memory.
#include <algorithm>
#include <cstring>

#include "test/gpu/driver/process.h"

using namespace mgpu::fake_gpu;

namespace mgpu::fake_gpu {
namespace {

constexpr std::uint64_t kPitchUnit = 512;

// CUmemLocation; type 1 is a device.
struct Location {
  int type;
  int id;
};

// Device memory that cuMemFree may free; it does not unmap, nor close memory of another process.
bool is_freeable(const Range& range) {
  return range.kind == Kind::device || range.kind == Kind::managed || range.kind == Kind::pooled ||
         range.kind == Kind::graph;
}

// Memory at which the host's pointer and the card's are the same.
Pointer allocate_for_host(Context& context, std::uint64_t bytes, Kind kind) {
  if (bytes > kMemoryMax) return 0;
  Range range{.bytes = bytes, .kind = kind, .context = &context};
  range.addresses = std::make_shared<Addresses>(bytes, true);
  const Pointer at = range.addresses->begin();
  if (at != 0) add_range(at, std::move(range));
  return at;
}

int allocate_host(void** result, std::size_t bytes) {
  return in_context([&](Context& context) {
    if (result == nullptr || bytes == 0) return kInvalidValue;
    const Pointer at = allocate_for_host(context, bytes, Kind::host);
    *result = reinterpret_cast<void*>(at);
    return at != 0 ? kSuccess : kOutOfMemory;
  });
}

}  // namespace
}  // namespace mgpu::fake_gpu

FAKE_CUDA int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return in_context([&](Context& context) {
    if (free == nullptr || total == nullptr) return kInvalidValue;
    // As measured, a client of MPS sees what it can allocate.
    const std::uint64_t unused = process().machine->free(context.card);
    *free = std::min(unused, left_of_limits(context.card).value_or(unused));
    *total = process().machine->total(context.card);
    return kSuccess;
  });
}

FAKE_CUDA int cuMemAlloc_v2(Pointer* pointer, std::size_t bytes) {
  return in_context([&](Context& context) {
    if (pointer == nullptr || bytes == 0) return kInvalidValue;
    if (const int code = check_uncaptured(); code != kSuccess) return code;
    if (refuses("memory")) return kIllegalState;
    *pointer = allocate(context, context.small, bytes);
    return *pointer != 0 ? kSuccess : kOutOfMemory;
  });
}

FAKE_CUDA int cuMemFree_v2(Pointer pointer) {
  return in_context([&](Context&) {
    if (pointer == 0) return kSuccess;
    Pointer begin = 0;
    const Range* const range = find_range(pointer, 1, &begin);
    if (range == nullptr || begin != pointer || !is_freeable(*range)) return kInvalidValue;
    free_range(pointer);
    return kSuccess;
  });
}

FAKE_CUDA int cuMemAllocPitch_v2(Pointer* pointer, std::size_t* pitch, std::size_t width,
                                 std::size_t height, unsigned) {
  return in_context([&](Context& context) {
    if (pointer == nullptr || pitch == nullptr || width == 0 || height == 0) return kInvalidValue;
    if (width > kMemoryMax || height > kMemoryMax / round_up(width, kPitchUnit)) {
      return kOutOfMemory;
    }
    *pitch = round_up(width, kPitchUnit);
    *pointer = allocate(context, context.small, *pitch * height);
    return *pointer != 0 ? kSuccess : kOutOfMemory;
  });
}

FAKE_CUDA int cuMemGetAddressRange_v2(Pointer* base, std::size_t* bytes, Pointer pointer) {
  return in_context([&](Context&) {
    Pointer begin = 0;
    const Range* const range = find_range(pointer, 1, &begin);
    if (range == nullptr) return kNotFound;
    if (base != nullptr) *base = begin;
    if (bytes != nullptr) *bytes = range->bytes;
    return kSuccess;
  });
}

// --- managed memory ------------------------------------------------------------------------------

FAKE_CUDA int cuMemAllocManaged(Pointer* pointer, std::size_t bytes, unsigned flags) {
  return in_context([&](Context& context) {
    // CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST
    if (pointer == nullptr || bytes == 0 || (flags != 1 && flags != 2)) return kInvalidValue;
    *pointer = allocate_for_host(context, bytes, Kind::managed);
    return *pointer != 0 ? kSuccess : kOutOfMemory;
  });
}

FAKE_CUDA int cuMemPrefetchAsync(Pointer pointer, std::size_t bytes, int device, void*) {
  return in_context([&](Context&) {
    Range* const range = find_range(pointer, bytes);
    if (range == nullptr || range->kind != Kind::managed) return kInvalidValue;
    if (device >= 0 && !is_device(device)) return kInvalidDevice;
    range->block = nullptr;
    // Where there is no memory it stays with the host.
    if (device >= 0) {
      range->block = take_block(device, round_up(range->bytes, kPage), Account::hidden);
    }
    return kSuccess;
  });
}
FAKE_CUDA_ALIAS(cuMemPrefetchAsync_ptsz, cuMemPrefetchAsync);

// Programs of CUDA 12.2 and later name a place; those that are no device are the host's.
FAKE_CUDA int cuMemPrefetchAsync_v2(Pointer pointer, std::size_t bytes, Location location, unsigned,
                                    void* stream) {
  return cuMemPrefetchAsync(pointer, bytes, location.type == 1 ? location.id : -1, stream);
}
FAKE_CUDA_ALIAS(cuMemPrefetchAsync_v2_ptsz, cuMemPrefetchAsync_v2);

FAKE_CUDA int cuMemAdvise(Pointer pointer, std::size_t bytes, int, int) {
  return in_context([&](Context&) {
    const Range* const range = find_range(pointer, bytes);
    return range != nullptr && range->kind == Kind::managed ? kSuccess : kInvalidValue;
  });
}

FAKE_CUDA int cuMemAdvise_v2(Pointer pointer, std::size_t bytes, int advice, Location location) {
  return cuMemAdvise(pointer, bytes, advice, location.id);
}

// --- host memory ---------------------------------------------------------------------------------

FAKE_CUDA int cuMemAllocHost_v2(void** result, std::size_t bytes) {
  return allocate_host(result, bytes);
}

FAKE_CUDA int cuMemHostAlloc(void** result, std::size_t bytes, unsigned) {
  return allocate_host(result, bytes);
}

FAKE_CUDA int cuMemFreeHost(void* memory) {
  return in_context([&](Context&) {
    const auto at = reinterpret_cast<Pointer>(memory);
    Pointer begin = 0;
    const Range* const range = find_range(at, 1, &begin);
    if (range == nullptr || begin != at || range->kind != Kind::host) return kInvalidValue;
    free_range(at);
    return kSuccess;
  });
}

FAKE_CUDA int cuMemHostGetDevicePointer_v2(Pointer* pointer, void* memory, unsigned) {
  return in_context([&](Context&) {
    *pointer = reinterpret_cast<Pointer>(memory);
    return find_range(*pointer, 1) != nullptr ? kSuccess : kInvalidValue;
  });
}

// Registered memory stays the program's own.
FAKE_CUDA int cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned) {
  return in_context([&](Context& context) {
    const auto at = reinterpret_cast<Pointer>(memory);
    if (memory == nullptr || bytes == 0 || find_range(at, 1) != nullptr) return kInvalidValue;
    add_range(at, {.bytes = bytes, .kind = Kind::host, .context = &context});
    return kSuccess;
  });
}

FAKE_CUDA int cuMemHostUnregister(void* memory) {
  return in_context([&](Context&) {
    const Range* const range = find_range(reinterpret_cast<Pointer>(memory), 1);
    const bool registered = range != nullptr && range->addresses == nullptr;
    return registered && free_range(reinterpret_cast<Pointer>(memory)) ? kSuccess : kInvalidValue;
  });
}

// --- attributes ----------------------------------------------------------------------------------

namespace {

template <class Value>
int answer(void* to, Value value) {
  std::memcpy(to, &value, sizeof value);
  return kSuccess;
}

// CUpointer_attribute
int pointer_attribute(void* to, int attribute, Pointer pointer) {
  Pointer begin = 0;
  const Range* const range = find_range(pointer, 1, &begin);
  if (range == nullptr) return kInvalidValue;
  const bool on_host = range->kind == Kind::host;
  switch (attribute) {
    case 1:
      return answer(to, range->context);
    case 2:
      return answer(to, on_host ? 1U : 2U);
    case 3:
      return answer(to, pointer);
    case 4:
      return on_host || range->kind == Kind::managed ? answer(to, pointer) : kInvalidValue;
    case 7:
      return answer(to, range->id);
    case 8:
      return answer(to, static_cast<unsigned>(range->kind == Kind::managed));
    case 9:
      return answer(to, range->block != nullptr && range->block->card >= 0 ? range->block->card
                        : range->context != nullptr                        ? range->context->card
                                                                           : 0);
    case 10:
      return answer(to, static_cast<unsigned>(range->kind == Kind::device));
    case 11:
      return answer(to, begin);
    case 12:
      return answer(to, static_cast<std::size_t>(range->bytes));
    case 13:
      return answer(to, 1U);
    case 17:
      return answer(to, range->pool);
    default:
      return kNotSupported;
  }
}

}  // namespace

FAKE_CUDA int cuPointerGetAttribute(void* value, int attribute, Pointer pointer) {
  return initialized([&] {
    return value != nullptr ? pointer_attribute(value, attribute, pointer) : kInvalidValue;
  });
}

// Of an address that is not known, and of an attribute that it does not have, it answers zeros.
FAKE_CUDA int cuPointerGetAttributes(unsigned count, const int* attributes, void** values,
                                     Pointer pointer) {
  return initialized([&] {
    for (unsigned i = 0; i < count; ++i) {
      if (pointer_attribute(values[i], attributes[i], pointer) == kSuccess) continue;
      const bool wide = attributes[i] == 1 || attributes[i] == 3 || attributes[i] == 4;
      std::memset(values[i], 0, wide ? 8 : 4);
    }
    return kSuccess;
  });
}
