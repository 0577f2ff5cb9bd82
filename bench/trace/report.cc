#include "bench/trace/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "bench/trace/spread.h"

namespace mgpu::trace {
namespace {

// ordered_json keeps the order in which members are added.
using Json = nlohmann::ordered_json;

constexpr std::int64_t kReported[] = {95, 100, 130};

// Not set if a run ends before it.
std::optional<Spread> spread_at(const std::vector<SeedResult>& seeds, std::int64_t arrived) {
  std::vector<double> values;
  for (const SeedResult& seed : seeds) {
    if (!seed.at(arrived)) return std::nullopt;
    values.push_back(*seed.at(arrived));
  }
  if (values.empty()) return std::nullopt;
  return spread_of(values);
}

std::string key_at(std::int64_t arrived) {
  return "at" + std::to_string(arrived);
}

Json number_or_null(const std::optional<double>& number) {
  return number ? Json(*number) : Json();
}

Json json_of(const SeedResult& seed) {
  Json json{{"seed", seed.seed}};
  for (const auto arrived : kReported) json[key_at(arrived)] = number_or_null(seed.at(arrived));
  json["overcommitted"] = seed.overcommitted;
  json["us_per_decision"] = seed.us_per_decision;
  json["decisions"] = seed.decisions;
  json["failures"] = json_of(seed.failures);
  json["curve"] = Json::array();
  for (const CurvePoint& point : seed.curve)
    json["curve"].push_back({{"arrived", point.arrived},
                             {"allocation", point.allocation},
                             {"fragmentation_amount", point.fragmentation_amount},
                             {"fragmentation_rate", point.fragmentation_rate}});
  return json;
}

std::string cell(const std::optional<double>& number) {
  return number ? fmt::format("{:>9.2f}", *number) : fmt::format("{:>9}", "-");
}

std::string row_of(const SeedResult& seed) {
  std::string row = fmt::format("{:>6}", seed.seed);
  for (const auto arrived : kReported) row += cell(seed.at(arrived));
  std::int64_t failed = 0;
  for (const Failures& failures : seed.failures) failed += failures.pods;
  return row +
         fmt::format("{:>15}{:>10}{:>13.1f}\n", seed.overcommitted, failed, seed.us_per_decision);
}

std::string row_of_all(const Report& report, std::string_view title, double Spread::*value) {
  std::string row = fmt::format("{:>6}", title);
  for (const auto arrived : kReported) {
    const auto spread = spread_at(report.seeds, arrived);
    row += cell(spread ? std::optional((*spread).*value) : std::nullopt);
  }
  return row + "\n";
}

}  // namespace

Json json_of(const std::vector<Failures>& all) {
  Json json = Json::array();
  for (const Failures& failures : all)
    json.push_back({{"size", failures.size}, {"pods", failures.pods}, {"gpus", failures.gpus}});
  return json;
}

std::string report_json(const Report& report) {
  Json json = json_of(report.heading);
  json["seeds"] = Json::array();
  json["mean"] = json["deviation"] = Json::object();
  for (const SeedResult& seed : report.seeds) json["seeds"].push_back(json_of(seed));
  for (const auto arrived : kReported) {
    const auto spread = spread_at(report.seeds, arrived);
    json["mean"][key_at(arrived)] = spread ? Json(spread->mean) : Json();
    json["deviation"][key_at(arrived)] = spread ? Json(spread->deviation) : Json();
  }
  return json.dump() + "\n";
}

std::string report_table(const Report& report) {
  std::string text = text_of(report.heading);
  text += fmt::format(
      "allocated percentage of all cards' compute when the arrived pods request 95, 100 and 130 "
      "percent of it\n\n{:>6}{:>9}{:>9}{:>9}{:>15}{:>10}{:>13}\n",
      "seed", "at 95", "at 100", "at 130", "overcommitted", "unplaced", "us/decision");
  for (const SeedResult& seed : report.seeds) text += row_of(seed);
  text += row_of_all(report, "mean", &Spread::mean);
  return text + row_of_all(report, "s.d.", &Spread::deviation);
}

}  // namespace mgpu::trace
