#include "extender/kubectl/waste/summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "extender/kubectl/waste/limits.h"

namespace mgpu::kubectl {
namespace {

constexpr double kPercentsOfCard = 100;
constexpr std::int64_t kWholeCardCore = 100;

using RowKey = std::tuple<std::string, std::string, std::string, std::string>;

RowKey key_of(const MeasuredShare& share, WasteBy by) {
  const std::string& name_space = share.pod.name_space;
  if (by == WasteBy::kNamespace) return {name_space, "", "", ""};
  if (by == WasteBy::kOwner) return {name_space, share.owner_kind, share.owner, share.container};
  return {name_space, "", share.pod.name, share.container};
}

void keep_largest(const std::optional<double>& value, std::optional<double>& largest) {
  if (value) largest = std::max(value, largest);
}

void add_share(const MeasuredShare& share, WasteRow& row) {
  ++row.shares;
  row.core = std::max(row.core, share.core);
  row.memory = std::max(row.memory, share.memory);
  row.granted_hours += share.granted_hours;
  row.measured_hours += share.measured_hours;
  row.samples += share.samples;
  keep_largest(share.memory_peak, row.memory_peak);
  keep_largest(share.core_p95, row.core_p95);
  if (!share.used_hours) return;
  const double known =
      std::min(share.granted_hours, share.core / kPercentsOfCard * share.measured_hours);
  row.measured_granted_hours += known;
  row.used_hours = row.used_hours.value_or(0) + *share.used_hours;
  // What one container used beyond its share does not make another one's share less wasted.
  row.wasted_hours += std::max(0.0, known - *share.used_hours);
}

void add_row(const WasteRow& from, WasteRow& to) {
  to.shares += from.shares;
  to.granted_hours += from.granted_hours;
  to.measured_granted_hours += from.measured_granted_hours;
  to.measured_hours += from.measured_hours;
  to.wasted_hours += from.wasted_hours;
  to.samples += from.samples;
  if (from.used_hours) to.used_hours = to.used_hours.value_or(0) + *from.used_hours;
}

// `value` with the margin, rounded up to a multiple of `step`, and at least one step.
std::int64_t with_margin(double value, std::int64_t margin, std::int64_t step) {
  constexpr double kMost = 1e12;
  const double known = std::isfinite(value) ? std::clamp(value, 0.0, kMost) : kMost;
  const double wanted = known * static_cast<double>(100 + margin) / 100;
  // A product of decimal numbers may be over a multiple by a rounding error.
  constexpr double kRoundingError = 1e-9;
  const double steps = std::ceil(wanted / static_cast<double>(step) - kRoundingError);
  return std::max<std::int64_t>(1, std::llround(steps)) * step;
}

SuggestedRequest suggestion_of(const WasteRow& row, std::int64_t margin) {
  const bool thin = row.measured_hours < kSuggestHoursMin || row.samples < kSuggestSamplesMin;
  if (thin) return {};
  SuggestedRequest suggested;
  if (row.core_p95) {
    suggested.core = std::min(with_margin(*row.core_p95, margin, kSuggestCoreStep), kWholeCardCore);
  }
  if (row.memory_peak) {
    suggested.memory =
        std::max(with_margin(*row.memory_peak, margin, kSuggestMemoryStep), kSuggestMemoryMin);
    // More than was granted may not fit on any card.
    const bool sufficed = row.memory > 0 && *row.memory_peak <= row.memory;
    if (sufficed && row.memory < static_cast<double>(*suggested.memory)) {
      suggested.memory = std::llround(row.memory);
    }
  }
  return suggested;
}

WasteRow row_of(const RowKey& key, WasteBy by) {
  WasteRow row;
  row.name_space = std::get<0>(key);
  if (by == WasteBy::kNamespace) return row;
  (by == WasteBy::kOwner ? row.owner : row.pod) = std::get<2>(key);
  row.owner_kind = std::get<1>(key);
  row.container = std::get<3>(key);
  return row;
}

}  // namespace

std::vector<WasteRow> waste_rows(const std::vector<MeasuredShare>& shares, WasteBy by,
                                 std::int64_t margin) {
  std::map<RowKey, WasteRow> keyed;
  for (const MeasuredShare& share : shares) {
    const RowKey key = key_of(share, by);
    WasteRow& row = keyed.try_emplace(key, row_of(key, by)).first->second;
    add_share(share, row);
    if (by == WasteBy::kPod && !share.owner.empty()) {
      row.owner_kind = share.owner_kind;
      row.owner = share.owner;
    }
  }
  std::vector<WasteRow> rows;
  for (auto& [key, row] : keyed) {
    if (by != WasteBy::kNamespace) row.suggested = suggestion_of(row, margin);
    rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(rows, std::greater<>(), &WasteRow::wasted_hours);
  return rows;
}

WasteRow waste_total(const std::vector<WasteRow>& rows) {
  WasteRow total;
  for (const WasteRow& row : rows) add_row(row, total);
  return total;
}

double not_measured_hours(const WasteRow& row) {
  return std::max(0.0, row.granted_hours - row.measured_granted_hours);
}

std::optional<double> wasted_percent(const WasteRow& row) {
  if (!(row.measured_granted_hours > 0)) return std::nullopt;
  return row.wasted_hours / row.measured_granted_hours * kPercentsOfCard;
}

}  // namespace mgpu::kubectl
