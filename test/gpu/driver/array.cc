// Arrays and mipmapped arrays: memory in tiles, without their data.
#include <algorithm>
#include <bit>

#include "test/gpu/driver/process.h"

using namespace mgpu::fake_gpu;

namespace mgpu::fake_gpu {
namespace {

// CUDA_ARRAY_DESCRIPTOR and CUDA_ARRAY3D_DESCRIPTOR
struct Descriptor {
  std::size_t width;
  std::size_t height;
  int format;
  unsigned channels;
};
struct Descriptor3D {
  std::size_t width;
  std::size_t height;
  std::size_t depth;
  int format;
  unsigned channels;
  unsigned flags;
};

}  // namespace

struct Array {
  Descriptor3D shape{};
  BlockPointer block{};
  std::uint64_t offset = 0;                      // in the block, of a small array
  std::vector<std::shared_ptr<Array>> levels{};  // of a mipmapped array
};

namespace {

// Tiles are 64 bytes wide and 8 rows high, and up to 16 of them are above each other. This gives
// all five sizes that were measured.
constexpr std::uint64_t kTileBytes = 64;
constexpr std::uint64_t kTileRows = 8;
constexpr std::uint64_t kTilesMax = 16;
constexpr std::size_t kSideMax = 131'072;
constexpr unsigned kLevelsMax = 18;

std::uint64_t bytes_of_format(int format) {
  switch (format) {
    case 0x01:
    case 0x08:
      return 1;
    case 0x02:
    case 0x09:
    case 0x10:
      return 2;
    case 0x03:
    case 0x0A:
    case 0x20:
      return 4;
    default:
      return 0;
  }
}

std::uint64_t tiled_bytes(const Descriptor3D& shape) {
  const std::uint64_t width = shape.width * shape.channels * bytes_of_format(shape.format);
  const std::uint64_t height = std::max<std::size_t>(shape.height, 1);
  const std::uint64_t tiles = std::bit_ceil((height + kTileRows - 1) / kTileRows);
  return round_up(width, kTileBytes) * round_up(height, kTileRows * std::min(tiles, kTilesMax)) *
         std::max<std::size_t>(shape.depth, 1);
}

bool is_good(const Descriptor3D& shape) {
  const bool channels = shape.channels == 1 || shape.channels == 2 || shape.channels == 4;
  return channels && bytes_of_format(shape.format) != 0 && shape.width >= 1 &&
         shape.width <= kSideMax && shape.height <= kSideMax && shape.depth <= kSideMax;
}

std::shared_ptr<Array> level_of(const Descriptor3D& shape, unsigned level) {
  auto array = std::make_shared<Array>();
  array->shape = shape;
  array->shape.width = std::max<std::size_t>(shape.width >> level, 1);
  if (shape.height != 0) array->shape.height = std::max<std::size_t>(shape.height >> level, 1);
  if (shape.depth != 0) array->shape.depth = std::max<std::size_t>(shape.depth >> level, 1);
  return array;
}

int create_array(Array** result, const Descriptor3D& shape, unsigned levels) {
  return in_context([&](Context& context) {
    if (result == nullptr || !is_good(shape) || levels > kLevelsMax) return kInvalidValue;
    auto array = std::make_shared<Array>();
    array->shape = shape;
    std::uint64_t bytes = levels == 0 ? tiled_bytes(shape) : 0;
    for (unsigned level = 0; level < levels; ++level) {
      array->levels.push_back(level_of(shape, level));
      bytes += tiled_bytes(array->levels.back()->shape);
    }
    if (bytes > kMemoryMax) return kOutOfMemory;
    if (bytes <= kSmallMax) {
      const SmallPieces::Piece piece = context.small_arrays.allocate(context.card, bytes);
      array->block = piece.block;
      array->offset = piece.offset;
    } else {
      array->block = take_block(context.card, round_up(bytes, kPage));
    }
    if (array->block == nullptr) return kOutOfMemory;
    *result = array.get();
    context.arrays[*result] = std::move(array);
    return kSuccess;
  });
}

// The result of run(array), which is an array of the current context or a level of one.
template <class Run>
int on_array(const Array* wanted, Run run) {
  return in_context([&](Context& context) {
    for (const auto& [handle, array] : context.arrays) {
      if (array.get() == wanted) return run(*array);
      for (const auto& level : array->levels) {
        if (level.get() == wanted) return run(*level);
      }
    }
    return kInvalidHandle;
  });
}

int destroy_array(const Array* array) {
  return in_context([&](Context& context) {
    const auto found = context.arrays.find(array);
    if (found == context.arrays.end()) return kInvalidHandle;
    context.small_arrays.free(found->second->block.get(), found->second->offset);
    context.arrays.erase(found);
    return kSuccess;
  });
}

}  // namespace
}  // namespace mgpu::fake_gpu

FAKE_CUDA int cuArrayCreate_v2(Array** array, const Descriptor* shape) {
  if (shape == nullptr) return kInvalidValue;
  return create_array(array, {shape->width, shape->height, 0, shape->format, shape->channels, 0},
                      0);
}

FAKE_CUDA int cuArray3DCreate_v2(Array** array, const Descriptor3D* shape) {
  return shape != nullptr ? create_array(array, *shape, 0) : kInvalidValue;
}

FAKE_CUDA int cuMipmappedArrayCreate(Array** array, const Descriptor3D* shape, unsigned levels) {
  return shape != nullptr && levels > 0 ? create_array(array, *shape, levels) : kInvalidValue;
}

FAKE_CUDA int cuArrayDestroy(Array* array) {
  return destroy_array(array);
}

FAKE_CUDA int cuMipmappedArrayDestroy(Array* array) {
  return destroy_array(array);
}

FAKE_CUDA int cuMipmappedArrayGetLevel(const Array** level, Array* array, unsigned number) {
  return on_array(array, [&](const Array& found) {
    if (level == nullptr || number >= found.levels.size()) return kInvalidValue;
    *level = found.levels[number].get();
    return kSuccess;
  });
}

FAKE_CUDA int cuArray3DGetDescriptor_v2(Descriptor3D* shape, Array* array) {
  return on_array(array, [&](const Array& found) {
    if (shape == nullptr) return kInvalidValue;
    *shape = found.shape;
    return kSuccess;
  });
}

FAKE_CUDA int cuArrayGetDescriptor_v2(Descriptor* shape, Array* array) {
  return on_array(array, [&](const Array& found) {
    if (shape == nullptr) return kInvalidValue;
    *shape = {found.shape.width, found.shape.height, found.shape.format, found.shape.channels};
    return kSuccess;
  });
}

// Only arrays whose memory is mapped later have requirements.
FAKE_CUDA int cuArrayGetMemoryRequirements(void*, Array* array, int) {
  return on_array(array, [](const Array&) { return kInvalidValue; });
}
