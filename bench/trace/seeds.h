// Seeds as a command line writes them. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace mgpu::trace {

// "42-51", "7" or "42,44-46": numbers and ranges, in the order written. Errors: anything else, a
// range that falls, a number over limits::kSeedMax, more than limits::kSeedsMax seeds.
Result<std::vector<std::uint64_t>> parse_seeds(std::string_view text);

}  // namespace mgpu::trace
