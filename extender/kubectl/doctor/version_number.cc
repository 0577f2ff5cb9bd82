#include "extender/kubectl/doctor/version_number.h"

#include <charconv>

namespace mgpu::kubectl {
namespace {

// Removes the number that `text` starts with; false without one.
bool take_version_part(std::string_view& text, std::int32_t& number) {
  if (text.starts_with('-')) return false;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return true;
}

bool take_dot(std::string_view& text) {
  if (!text.starts_with('.')) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::optional<Version> parse_version(std::string_view text) {
  Version version;
  version.text = text;
  if (text.starts_with('v')) text.remove_prefix(1);
  const bool good = take_version_part(text, version.major) && take_dot(text) &&
                    take_version_part(text, version.minor) && take_dot(text) &&
                    take_version_part(text, version.patch);
  const bool ends = text.empty() || text.starts_with('-') || text.starts_with('+');
  return good && ends ? std::optional(version) : std::nullopt;
}

}  // namespace mgpu::kubectl
