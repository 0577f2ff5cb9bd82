#include "extender/kubectl/doctor/version_number.h"

#include <charconv>
#include <cstdlib>

namespace mgpu::kubectl {

std::optional<Version> parse_version(std::string_view text) {
  Version version;
  version.text = text;
  if (text.starts_with('v')) text.remove_prefix(1);
  for (std::int32_t* const part : {&version.major, &version.minor, &version.patch}) {
    const bool is_first = part == &version.major;
    if (!is_first && !text.starts_with('.')) return std::nullopt;
    if (!is_first) text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
    const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), *part);
    if (failure != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  }
  const bool ends = text.empty() || text.starts_with('-') || text.starts_with('+');
  return ends ? std::optional(version) : std::nullopt;
}

bool fit_together(const std::string& one, const std::string& other) {
  const auto a = parse_version(one);
  const auto b = parse_version(other);
  if (!a || !b) return one == other;
  return a->major == b->major && std::abs(a->minor - b->minor) <= 1;
}

}  // namespace mgpu::kubectl
