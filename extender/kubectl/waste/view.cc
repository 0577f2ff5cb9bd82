#include "extender/kubectl/waste/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/utc_text.h"
#include "extender/kubectl/inspected.h"
#include "extender/kubectl/waste/csv.h"
#include "extender/kubectl/waste/limits.h"

namespace mgpu::kubectl {
namespace {

// Three decimals, as a number of JSON.
double rounded(double value) {
  constexpr double kParts = 1'000;
  return std::isfinite(value) ? std::round(value * kParts) / kParts : 0;
}

std::string hours_text(double hours) {
  return fmt::format("{:.2f}", hours);
}

std::string hours_text(const std::optional<double>& hours) {
  return hours ? hours_text(*hours) : "";
}

Cell wasted_cell(const WasteRow& row) {
  const auto percent = wasted_percent(row);
  if (!percent) return {};
  constexpr double kMuch = 75;
  constexpr double kLittle = 25;
  const Color color = *percent >= kMuch     ? Color::kRed
                      : *percent >= kLittle ? Color::kYellow
                                            : Color::kGreen;
  return {fmt::format("{} ({}%)", hours_text(row.wasted_hours), nearest(*percent)), color};
}

// "17/30"; "?/30" if the use is not known.
Cell part_cell(const std::optional<double>& used, double granted) {
  const std::int64_t whole = nearest(granted);
  if (whole == 0) return {};
  if (!used) return {"?/" + grouped(whole)};
  const Fill fill{nearest(*used), whole};
  return {grouped(fill.part) + "/" + grouped(fill.whole), Color::kNone, fill};
}

std::string suggested_text(const SuggestedRequest& suggested) {
  const std::string core = suggested.core ? fmt::format("mgpu-core {}", *suggested.core) : "";
  const std::string memory =
      suggested.memory ? fmt::format("mgpu-memory {}", *suggested.memory) : "";
  return core + (core.empty() || memory.empty() ? "" : ", ") + memory;
}

std::string owner_text(const WasteRow& row) {
  return row.owner.empty() ? "" : row.owner_kind + "/" + row.owner;
}

// Which columns a table has.
struct WasteColumns {
  WasteBy by = WasteBy::kPod;
  bool with_namespace = false;
  bool with_not_measured = false;
};

bool has_not_measured(const WasteRow& row) {
  constexpr double kShownMin = 0.005;  // 0.01
  return not_measured_hours(row) >= kShownMin;
}

std::vector<Column> columns_of(const WasteColumns& shown) {
  const bool pods = shown.by == WasteBy::kPod;
  const bool namespaces = shown.by == WasteBy::kNamespace;
  const bool hidden = namespaces;  // several containers are one row
  return {{.title = "NAMESPACE", .hidden = !shown.with_namespace && !namespaces},
          {.title = "POD", .hidden = !pods},
          {.title = "OWNER", .wide = pods, .hidden = hidden},
          {.title = "CONTAINER", .hidden = hidden},
          {"GRANTED (GPU-H)", false, true},
          {"USED (GPU-H)", false, true},
          {"WASTED (GPU-H)", false, true},
          {"NOT MEASURED (GPU-H)", false, true, !shown.with_not_measured},
          {"COMPUTE % (P95/GRANTED)", false, true, hidden},
          {"MEMORY MIB (PEAK/GRANTED)", false, true, hidden},
          {.title = "SUGGESTED", .hidden = hidden},
          {"SHARES", true, true},
          {"MEASURED (H)", true, true},
          {"SAMPLES", true, true}};
}

std::vector<Cell> cells_of(const WasteRow& row) {
  return {{row.name_space},
          {row.pod},
          {owner_text(row)},
          {row.container},
          {hours_text(row.granted_hours)},
          {hours_text(row.used_hours)},
          wasted_cell(row),
          {hours_text(not_measured_hours(row))},
          part_cell(row.core_p95, row.core),
          part_cell(row.memory_peak, row.memory),
          {suggested_text(row.suggested)},
          {grouped(row.shares)},
          {hours_text(row.measured_hours)},
          {grouped(row.samples)}};
}

Json hours_object(const WasteRow& row) {
  Json hours = {{"granted", rounded(row.granted_hours)},
                {"notMeasured", rounded(not_measured_hours(row))}};
  if (!row.used_hours) return hours;
  hours["used"] = rounded(*row.used_hours);
  hours["wasted"] = rounded(row.wasted_hours);
  if (const auto percent = wasted_percent(row)) hours["wastedPercent"] = rounded(*percent);
  return hours;
}

Json waste_object(const WasteRow& row, WasteBy by) {
  Json json = {{"namespace", row.name_space}};
  if (!row.pod.empty()) json["pod"] = row.pod;
  if (!row.owner.empty()) {
    json["ownerKind"] = row.owner_kind;
    json["owner"] = row.owner;
  }
  if (by != WasteBy::kNamespace) json["container"] = row.container;
  json["shares"] = row.shares;
  json["gpuHours"] = hours_object(row);
  json["hoursMeasured"] = rounded(row.measured_hours);
  json["samples"] = row.samples;
  if (by == WasteBy::kNamespace) return json;
  json["core"] = {{"granted", nearest(row.core)}};
  if (row.core_p95) json["core"]["p95"] = rounded(*row.core_p95);
  json["memoryMiB"] = {{"granted", nearest(row.memory)}};
  if (row.memory_peak) json["memoryMiB"]["peak"] = nearest(*row.memory_peak);
  if (row.suggested.core || row.suggested.memory) json["suggested"] = Json::object();
  if (row.suggested.core) json["suggested"]["core"] = *row.suggested.core;
  if (row.suggested.memory) json["suggested"]["memoryMiB"] = *row.suggested.memory;
  return json;
}

// Where the numbers come from, as the first members of JSON.
Json source_object(const UseFacts& facts) {
  return {{"source", "prometheus"},
          {"since", utc_text(facts.since)},
          {"until", utc_text(facts.until)},
          {"stepSeconds", facts.step.count()}};
}

std::string csv_number(const std::optional<double>& value) {
  return value ? fmt::format("{:.3f}", *value) : "";
}

std::string csv_whole(const std::optional<std::int64_t>& value) {
  return value ? std::to_string(*value) : "";
}

}  // namespace

View waste_view(const std::vector<WasteRow>& rows, const UseFacts& facts, WasteBy by,
                bool with_namespace) {
  const WasteColumns shown{by, with_namespace, std::ranges::any_of(rows, has_not_measured)};
  View view{.table = Table(columns_of(shown)), .json = source_object(facts)};
  view.empty = "No container held a share of a card. " + source_text(facts);
  view.json["total"] = hours_object(waste_total(rows));
  view.json["items"] = Json::array();
  for (const WasteRow& row : rows) {
    view.table.add(cells_of(row));
    view.json["items"].push_back(waste_object(row, by));
  }
  return view;
}

std::string source_text(const UseFacts& facts) {
  return fmt::format("From Prometheus, since {} until {}, in steps of {} seconds.",
                     utc_text(facts.since), utc_text(facts.until), facts.step.count());
}

std::string total_text(const std::vector<WasteRow>& rows) {
  const WasteRow total = waste_total(rows);
  std::string text = fmt::format("Granted {} GPU-hours", hours_text(total.granted_hours));
  if (!total.used_hours) return text + "; the use was not measured.";
  text += fmt::format(": used {}, wasted {}", hours_text(total.used_hours),
                      hours_text(total.wasted_hours));
  const auto percent = wasted_percent(total);
  if (percent) text += fmt::format(" ({}% of what was measured)", nearest(*percent));
  if (has_not_measured(total)) {
    text += fmt::format(", not measured {}", hours_text(not_measured_hours(total)));
  }
  return text + ".";
}

std::string waste_csv(const std::vector<WasteRow>& rows, const UseFacts& facts) {
  std::string csv = csv_line({"namespace",
                              "owner_kind",
                              "owner",
                              "pod",
                              "container",
                              "shares",
                              "core_percent",
                              "memory_mib",
                              "gpu_hours_granted",
                              "gpu_hours_used",
                              "gpu_hours_wasted",
                              "gpu_hours_not_measured",
                              "hours_measured",
                              "samples",
                              "core_percent_p95",
                              "memory_mib_peak",
                              "suggested_core_percent",
                              "suggested_memory_mib",
                              "since",
                              "until"});
  for (const WasteRow& row : rows) {
    const bool known = row.used_hours.has_value();
    const auto peak = row.memory_peak ? std::optional(nearest(*row.memory_peak)) : std::nullopt;
    csv += csv_line({csv_text(row.name_space),
                     csv_text(row.owner_kind),
                     csv_text(row.owner),
                     csv_text(row.pod),
                     csv_text(row.container),
                     std::to_string(row.shares),
                     std::to_string(nearest(row.core)),
                     std::to_string(nearest(row.memory)),
                     csv_number(row.granted_hours),
                     csv_number(row.used_hours),
                     known ? csv_number(row.wasted_hours) : "",
                     csv_number(not_measured_hours(row)),
                     csv_number(row.measured_hours),
                     std::to_string(row.samples),
                     csv_number(row.core_p95),
                     csv_whole(peak),
                     csv_whole(row.suggested.core),
                     csv_whole(row.suggested.memory),
                     utc_text(facts.since),
                     utc_text(facts.until)});
  }
  return csv;
}

}  // namespace mgpu::kubectl
