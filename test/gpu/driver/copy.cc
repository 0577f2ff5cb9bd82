// Copies and fills. They complete at once. Data of allocations of more than kKeptMax, of arrays and
// of memory that another process has allocated is not kept.
#include <cstring>
#include <vector>

#include "test/gpu/driver/process.h"

using namespace mgpu::fake_gpu;

namespace mgpu::fake_gpu {

Place device_place(Pointer at, std::uint64_t bytes) {
  Pointer begin = 0;
  Range* const range = find_range(at, bytes, &begin);
  if (range == nullptr) return {};
  if (range->kind == Kind::managed || range->kind == Kind::host) {
    // The card touches it.
    if (range->kind == Kind::managed && range->block == nullptr) {
      range->block =
          take_block(range->context->card, round_up(range->bytes, kPage), Account::hidden);
    }
    return {true, reinterpret_cast<unsigned char*>(at)};
  }
  if (range->block == nullptr || range->kind == Kind::imported) return {true, nullptr};
  unsigned char* const data = range->block->data();
  return {true, data != nullptr ? data + range->offset + (at - begin) : nullptr};
}

namespace {

Place host_place(const void* at) {
  return {at != nullptr, static_cast<unsigned char*>(const_cast<void*>(at))};
}

// An address of the card, or else one of the host.
Place any_place(Pointer at, std::uint64_t bytes) {
  const Place place = device_place(at, bytes);
  return place.known ? place : host_place(reinterpret_cast<void*>(at));
}

int copy(Place to, Place from, std::size_t bytes) {
  if (!to.known || !from.known) return kInvalidValue;
  if (to.data == nullptr) return kSuccess;
  if (from.data != nullptr) {
    std::memmove(to.data, from.data, bytes);
  } else {
    std::memset(to.data, 0, bytes);
  }
  return kSuccess;
}

// The result of run(context), after what the default stream has.
template <class Run>
int in_order(Run run, const char* function = __builtin_FUNCTION()) {
  const int code = wait_for_default_stream();
  return code == kSuccess ? in_context(run, function) : code;
}

template <class Value>
int fill(Pointer at, std::size_t pitch, Value value, std::size_t width, std::size_t height) {
  return in_context([&](Context&) {
    if (width == 0 || height == 0) return kSuccess;
    if (at % sizeof value != 0) return kInvalidValue;
    const std::size_t bytes = (height - 1) * pitch + width * sizeof value;
    const Place place = device_place(at, bytes);
    if (!place.known) return kInvalidValue;
    for (std::size_t row = 0; row < height && place.data != nullptr; ++row) {
      for (std::size_t i = 0; i < width; ++i) {
        std::memcpy(place.data + row * pitch + i * sizeof value, &value, sizeof value);
      }
    }
    return kSuccess;
  });
}

// CUDA_MEMCPY2D
struct Copy2D {
  struct Side {
    std::size_t x;
    std::size_t y;
    unsigned type;  // 1 host, 2 device, 3 array, 4 unified
    const void* host;
    Pointer device;
    void* array;
    std::size_t pitch;
  };
  Side from;
  Side to;
  std::size_t width;
  std::size_t height;
};

Place row_of(const Copy2D::Side& side, std::size_t row, std::size_t width) {
  const std::size_t offset = (side.y + row) * side.pitch + side.x;
  if (side.type == 1) return host_place(static_cast<const unsigned char*>(side.host) + offset);
  if (side.type == 3) return {side.array != nullptr, nullptr};
  return side.type == 2 ? device_place(side.device + offset, width)
                        : any_place(side.device + offset, width);
}

}  // namespace
}  // namespace mgpu::fake_gpu

FAKE_CUDA int cuMemcpyHtoD_v2(Pointer to, const void* from, std::size_t bytes) {
  return in_order([&](Context&) { return copy(device_place(to, bytes), host_place(from), bytes); });
}
FAKE_CUDA int cuMemcpyDtoH_v2(void* to, Pointer from, std::size_t bytes) {
  return in_order([&](Context&) { return copy(host_place(to), device_place(from, bytes), bytes); });
}
FAKE_CUDA int cuMemcpyDtoD_v2(Pointer to, Pointer from, std::size_t bytes) {
  return in_order(
      [&](Context&) { return copy(device_place(to, bytes), device_place(from, bytes), bytes); });
}
FAKE_CUDA int cuMemcpy(Pointer to, Pointer from, std::size_t bytes) {
  return in_order(
      [&](Context&) { return copy(any_place(to, bytes), any_place(from, bytes), bytes); });
}
FAKE_CUDA int cuMemcpyPeer(Pointer to, Context*, Pointer from, Context*, std::size_t bytes) {
  return cuMemcpyDtoD_v2(to, from, bytes);
}
FAKE_CUDA int cuMemcpy2D_v2(const Copy2D* wanted) {
  return in_order([&](Context&) {
    if (wanted == nullptr) return kInvalidValue;
    for (std::size_t row = 0; row < wanted->height; ++row) {
      const int code = copy(row_of(wanted->to, row, wanted->width),
                            row_of(wanted->from, row, wanted->width), wanted->width);
      if (code != kSuccess) return code;
    }
    return kSuccess;
  });
}
FAKE_CUDA_ALIAS(cuMemcpyHtoD_v2_ptds, cuMemcpyHtoD_v2);
FAKE_CUDA_ALIAS(cuMemcpyDtoH_v2_ptds, cuMemcpyDtoH_v2);
FAKE_CUDA_ALIAS(cuMemcpyDtoD_v2_ptds, cuMemcpyDtoD_v2);
FAKE_CUDA_ALIAS(cuMemcpy_ptds, cuMemcpy);
FAKE_CUDA_ALIAS(cuMemcpyPeer_ptds, cuMemcpyPeer);
FAKE_CUDA_ALIAS(cuMemcpy2D_v2_ptds, cuMemcpy2D_v2);
FAKE_CUDA_ALIAS(cuMemcpy2DUnaligned_v2, cuMemcpy2D_v2);
FAKE_CUDA_ALIAS(cuMemcpy2DUnaligned_v2_ptds, cuMemcpy2D_v2);

FAKE_CUDA int cuMemcpyHtoDAsync_v2(Pointer to, const void* from, std::size_t bytes,
                                   Stream* stream) {
  return queue(stream, NodeKind::copy, [=] { return cuMemcpyHtoD_v2(to, from, bytes); });
}
FAKE_CUDA int cuMemcpyDtoHAsync_v2(void* to, Pointer from, std::size_t bytes, Stream* stream) {
  return queue(stream, NodeKind::copy, [=] { return cuMemcpyDtoH_v2(to, from, bytes); });
}
FAKE_CUDA int cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, std::size_t bytes, Stream* stream) {
  return queue(stream, NodeKind::copy, [=] { return cuMemcpyDtoD_v2(to, from, bytes); });
}
FAKE_CUDA int cuMemcpyAsync(Pointer to, Pointer from, std::size_t bytes, Stream* stream) {
  return queue(stream, NodeKind::copy, [=] { return cuMemcpy(to, from, bytes); });
}
FAKE_CUDA int cuMemcpyPeerAsync(Pointer to, Context*, Pointer from, Context*, std::size_t bytes,
                                Stream* stream) {
  return queue(stream, NodeKind::copy, [=] { return cuMemcpyDtoD_v2(to, from, bytes); });
}
FAKE_CUDA int cuMemcpy2DAsync_v2(const Copy2D* wanted, Stream* stream) {
  if (wanted == nullptr) return kInvalidValue;
  return queue(stream, NodeKind::copy, [copied = *wanted] { return cuMemcpy2D_v2(&copied); });
}
FAKE_CUDA_ALIAS(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync_v2);
FAKE_CUDA_ALIAS(cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoHAsync_v2);
FAKE_CUDA_ALIAS(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync_v2);
FAKE_CUDA_ALIAS(cuMemcpyAsync_ptsz, cuMemcpyAsync);
FAKE_CUDA_ALIAS(cuMemcpyPeerAsync_ptsz, cuMemcpyPeerAsync);
FAKE_CUDA_ALIAS(cuMemcpy2DAsync_v2_ptsz, cuMemcpy2DAsync_v2);

// --- fills ---------------------------------------------------------------------------------------

FAKE_CUDA int cuMemsetD8_v2(Pointer at, unsigned char value, std::size_t count) {
  return fill(at, 0, value, count, 1);
}
FAKE_CUDA int cuMemsetD16_v2(Pointer at, unsigned short value, std::size_t count) {
  return fill(at, 0, value, count, 1);
}
FAKE_CUDA int cuMemsetD32_v2(Pointer at, unsigned value, std::size_t count) {
  return fill(at, 0, value, count, 1);
}
FAKE_CUDA int cuMemsetD8Async(Pointer at, unsigned char value, std::size_t count, Stream* stream) {
  return queue(stream, NodeKind::fill, [=] { return fill(at, 0, value, count, 1); });
}
FAKE_CUDA int cuMemsetD16Async(Pointer at, unsigned short value, std::size_t count,
                               Stream* stream) {
  return queue(stream, NodeKind::fill, [=] { return fill(at, 0, value, count, 1); });
}
FAKE_CUDA int cuMemsetD32Async(Pointer at, unsigned value, std::size_t count, Stream* stream) {
  return queue(stream, NodeKind::fill, [=] { return fill(at, 0, value, count, 1); });
}
FAKE_CUDA int cuMemsetD2D8_v2(Pointer at, std::size_t pitch, unsigned char value, std::size_t width,
                              std::size_t height) {
  return fill(at, pitch, value, width, height);
}
FAKE_CUDA int cuMemsetD2D16_v2(Pointer at, std::size_t pitch, unsigned short value,
                               std::size_t width, std::size_t height) {
  return fill(at, pitch, value, width, height);
}
FAKE_CUDA int cuMemsetD2D32_v2(Pointer at, std::size_t pitch, unsigned value, std::size_t width,
                               std::size_t height) {
  return fill(at, pitch, value, width, height);
}
FAKE_CUDA int cuMemsetD2D8Async(Pointer at, std::size_t pitch, unsigned char value,
                                std::size_t width, std::size_t height, Stream* stream) {
  return queue(stream, NodeKind::fill, [=] { return fill(at, pitch, value, width, height); });
}
FAKE_CUDA int cuMemsetD2D16Async(Pointer at, std::size_t pitch, unsigned short value,
                                 std::size_t width, std::size_t height, Stream* stream) {
  return queue(stream, NodeKind::fill, [=] { return fill(at, pitch, value, width, height); });
}
FAKE_CUDA int cuMemsetD2D32Async(Pointer at, std::size_t pitch, unsigned value, std::size_t width,
                                 std::size_t height, Stream* stream) {
  return queue(stream, NodeKind::fill, [=] { return fill(at, pitch, value, width, height); });
}
FAKE_CUDA_ALIAS(cuMemsetD8_v2_ptds, cuMemsetD8_v2);
FAKE_CUDA_ALIAS(cuMemsetD16_v2_ptds, cuMemsetD16_v2);
FAKE_CUDA_ALIAS(cuMemsetD32_v2_ptds, cuMemsetD32_v2);
FAKE_CUDA_ALIAS(cuMemsetD2D8_v2_ptds, cuMemsetD2D8_v2);
FAKE_CUDA_ALIAS(cuMemsetD2D16_v2_ptds, cuMemsetD2D16_v2);
FAKE_CUDA_ALIAS(cuMemsetD2D32_v2_ptds, cuMemsetD2D32_v2);
FAKE_CUDA_ALIAS(cuMemsetD8Async_ptsz, cuMemsetD8Async);
FAKE_CUDA_ALIAS(cuMemsetD16Async_ptsz, cuMemsetD16Async);
FAKE_CUDA_ALIAS(cuMemsetD32Async_ptsz, cuMemsetD32Async);
FAKE_CUDA_ALIAS(cuMemsetD2D8Async_ptsz, cuMemsetD2D8Async);
FAKE_CUDA_ALIAS(cuMemsetD2D16Async_ptsz, cuMemsetD2D16Async);
FAKE_CUDA_ALIAS(cuMemsetD2D32Async_ptsz, cuMemsetD2D32Async);
