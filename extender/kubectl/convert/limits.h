// Limits of kubectl mgpu convert, with their reasons.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mgpu::kubectl::convert {

// The same in the policies. 64 cards of this many GiB are less than 2^63 MiB.
inline constexpr std::int64_t kForeignAmountMax = std::int64_t{1} << 30;

// Sentences about pods that cannot be converted.
inline constexpr std::size_t kRefusalsMax = 100;

}  // namespace mgpu::kubectl::convert
