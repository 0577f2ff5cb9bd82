// Kubernetes quantities: "8000", "8k", "2Gi", "1e3", "500m". Pure; any thread.
//
//   quantity := sign? number suffix?
//   number   := digits | digits "." digits? | "." digits
//   suffix   := "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E"
//             | "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei" | ("e" | "E") sign? digits
//
// Source: apimachinery pkg/api/resource/quantity.go. The API server stores every quantity in
// its canonical form, so "8000" written by a user is read back as "8k". Only there a quantity
// without digits ("k") means zero; it is refused here. Nowhere may one be longer than
// kQuantityBytesMax.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/contract/limits.h"

namespace mgpu {

// The value as a whole number. Fractions that are whole after scaling ("2000m", "0.5k") count as
// whole. Errors, each saying what was found: not a quantity; negative; not a whole number; over
// 2^62. `field` names the value in the sentence, such as
// "limits vke.volcengine.com/mgpu-core of container app".
Result<std::int64_t> parse_whole_quantity(std::string_view field, std::string_view text);

// The value times 10^`power` (0 .. 9), what is beyond a whole number rounded up, as Kubernetes does
// it (quantity.go, ScaledValue): power 3 reads CPU as thousandths of a core. Errors: as above, but
// fractions are none.
Result<std::int64_t> parse_scaled_quantity(std::string_view field, std::string_view text,
                                           int power);

// A quantity as the API server stores it: "8000" -> "8k", "0.5" -> "500m", "1024Ki" -> "1Mi".
// What is beyond a billionth is rounded up, and binary quantities end at 2^63 - 1.
struct CanonicalQuantity {
  std::string text;
  double value = 0;  // near enough to compare amounts
  bool whole = true;
};

// None: not a quantity, or one of more than a thousand digits.
std::optional<CanonicalQuantity> canonical_quantity(std::string_view text);

}  // namespace mgpu
