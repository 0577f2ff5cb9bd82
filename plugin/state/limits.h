// Bounds of the state on disk, with their reasons.
#pragma once

#include <cstddef>

namespace mgpu::plugin {

inline constexpr std::size_t kRecordBytesMax = 64 * 1024;
inline constexpr std::size_t kRecordsMax = 10'000;

}  // namespace mgpu::plugin
