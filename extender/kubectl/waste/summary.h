// Sums of what was granted and used, and the requests that would suffice. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "extender/kubectl/waste/shares.h"

namespace mgpu::kubectl {

enum class WasteBy { kPod, kOwner, kNamespace };

// The request for each card. A part that the data do not support is not set.
struct SuggestedRequest {
  std::optional<std::int64_t> core{};    // percent of a card
  std::optional<std::int64_t> memory{};  // MiB
};

// A container of a pod or of the pods of an owner, or a namespace.
struct WasteRow {
  std::string name_space{};
  std::string owner_kind{};
  std::string owner{};
  std::string pod{};
  std::string container{};
  std::int64_t shares = 0;  // containers on cards
  double core = 0;          // granted of a card; the largest
  double memory = 0;
  double granted_hours = 0;
  double measured_granted_hours = 0;   // the part of these of which the use is known
  std::optional<double> used_hours{};  // in that part
  double wasted_hours = 0;             // in that part
  double measured_hours = 0;
  std::int64_t samples = 0;
  std::optional<double> memory_peak{};  // the largest
  std::optional<double> core_p95{};     // the largest
  SuggestedRequest suggested{};
};

// The rows with the most waste first. `margin` is in percent. A namespace gets no suggestion.
std::vector<WasteRow> waste_rows(const std::vector<MeasuredShare>& shares, WasteBy by,
                                 std::int64_t margin);
WasteRow waste_total(const std::vector<WasteRow>& rows);

// Returns the granted hours of which the use is not known.
double not_measured_hours(const WasteRow& row);
// The wasted part of what was granted while the use was known, in percent.
std::optional<double> wasted_percent(const WasteRow& row);

}  // namespace mgpu::kubectl
