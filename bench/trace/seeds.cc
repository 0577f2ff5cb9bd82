#include "bench/trace/seeds.h"

#include <optional>
#include <string>

#include "bench/trace/limits.h"
#include "common/base/text.h"

namespace mgpu::trace {
namespace {

struct Range {
  std::uint64_t first;
  std::uint64_t last;
};

std::optional<std::uint64_t> number_of(std::string_view text) {
  const auto number = parse_number<std::uint64_t>(text);
  return number && *number <= static_cast<std::uint64_t>(limits::kSeedMax) ? number : std::nullopt;
}

std::optional<Range> range_of(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = number_of(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number_of(text.substr(dash + 1));
  if (!first || !last || *first > *last) return std::nullopt;
  return Range{*first, *last};
}

}  // namespace

Result<std::vector<std::uint64_t>> parse_seeds(std::string_view text) {
  std::vector<std::uint64_t> seeds;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const auto range = range_of(rest.substr(0, comma));
    if (!range)
      return error("seeds " + in_quotes(text) + ": expected numbers from 0 to " +
                   std::to_string(limits::kSeedMax) + " and ranges of them, such as 42-51 or 1,7");
    if (range->last - range->first >= limits::kSeedsMax - seeds.size())
      return error("seeds " + in_quotes(text) + ": expected at most " +
                   std::to_string(limits::kSeedsMax) + " seeds");
    for (std::uint64_t seed = range->first; seed <= range->last; ++seed) seeds.push_back(seed);
    if (comma == std::string_view::npos) return seeds;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace mgpu::trace
