// Versions of Kubernetes and mgpu as numbers. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

namespace mgpu::kubectl {

struct Version {
  std::int32_t major = 0;
  std::int32_t minor = 0;
  std::int32_t patch = 0;
  std::string text{};  // "v1.36.3"; does not count in comparisons

  auto numbers() const { return std::tie(major, minor, patch); }
  auto operator<=>(const Version& other) const { return numbers() <=> other.numbers(); }
  bool operator==(const Version& other) const { return numbers() == other.numbers(); }
};

// "v1.36.3", "0.1.0", or "v1.29.4-gke.1043002" of a provider. None: `text` is no version.
std::optional<Version> parse_version(std::string_view text);

// Releases of one major version work together if their minor versions differ by at most one.
bool fit_together(const std::string& one, const std::string& other);

}  // namespace mgpu::kubectl
