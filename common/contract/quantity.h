// Kubernetes quantities: "8000", "8k", "2Gi", "1e3", "500m". Pure; thread-safe.
//
//   quantity := sign? number suffix?
//   number   := digits | digits "." digits? | "." digits
//   suffix   := "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E"
//             | "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei" | ("e" | "E") sign? digits
//
// See apimachinery pkg/api/resource/quantity.go. The API server stores quantities in their
// canonical form, which is "8k" for "8000". It also accepts a quantity without digits ("k") as
// zero, which is an error here. A quantity has at most kQuantityBytesMax bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/contract/limits.h"

namespace mgpu {

// The value of a quantity that is a whole number, such as "2000m" or "0.5k". Errors: not a
// quantity, negative, not a whole number, over 2^62. `field` names the quantity in the sentence,
// such as "limits vke.volcengine.com/mgpu-core of container app".
Result<std::int64_t> parse_whole_quantity(std::string_view field, std::string_view text);

// The value times 10^`power` (0 .. 9), rounded up to a whole number as in Kubernetes (quantity.go,
// ScaledValue). With power 3, an amount of CPU is in thousandths of a core. Errors: not a quantity,
// negative, over 2^62.
Result<std::int64_t> parse_scaled_quantity(std::string_view field, std::string_view text,
                                           int power);

// A quantity as the API server stores it: "8000" -> "8k", "0.5" -> "500m", "1024Ki" -> "1Mi". It is
// rounded up to billionths, and binary quantities are limited to 2^63 - 1.
struct CanonicalQuantity {
  std::string text;
  double value = 0;  // precise enough to compare amounts
  bool whole = true;
};

// Empty if `text` is not a quantity, or is 10^745 or more.
std::optional<CanonicalQuantity> canonical_quantity(std::string_view text);

}  // namespace mgpu
