// Seeds as written on a command line. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace mgpu::trace {

// Reads numbers and ranges, such as "42-51", "7" or "42,44-46", and keeps their order. Errors: any
// other text, a descending range, a number over limits::kSeedMax, more than limits::kSeedsMax
// seeds.
Result<std::vector<std::uint64_t>> parse_seeds(std::string_view text);

}  // namespace mgpu::trace
