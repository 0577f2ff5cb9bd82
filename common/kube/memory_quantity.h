// Quantities as the API server stores them: "8000" -> "8k", "0.5" -> "500m", "1024Ki" -> "1Mi".
// Source: apimachinery pkg/api/resource/quantity.go. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mgpu::kube {

struct CanonicalQuantity {
  std::string text;
  double value = 0;  // near enough to compare amounts
  bool whole = true;
};

// None: not a quantity, or longer than limits::kQuantityBytesMax.
std::optional<CanonicalQuantity> canonical_quantity(std::string_view text);

}  // namespace mgpu::kube
