#include "bench/trace/report.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

namespace mgpu::trace {
namespace {

// In this order, not by name.
using Json = nlohmann::ordered_json;

constexpr std::int64_t kReported[] = {95, 100, 130};

struct Spread {
  double mean = 0;
  double deviation = 0;
};

// None where a seed does not reach it.
std::optional<Spread> spread_at(const std::vector<SeedResult>& seeds, std::int64_t arrived) {
  if (seeds.empty()) return std::nullopt;
  double sum = 0;
  for (const SeedResult& seed : seeds) {
    if (!seed.at(arrived)) return std::nullopt;
    sum += *seed.at(arrived);
  }
  const auto count = static_cast<double>(seeds.size());
  const double mean = sum / count;
  double squares = 0;
  for (const SeedResult& seed : seeds)
    squares += (*seed.at(arrived) - mean) * (*seed.at(arrived) - mean);
  return Spread{mean, count > 1 ? std::sqrt(squares / (count - 1)) : 0};
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
  json["failures"] = Json::array();
  for (const Failures& failures : seed.failures)
    json["failures"].push_back(
        {{"size", failures.size}, {"pods", failures.pods}, {"gpus", failures.gpus}});
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

std::string report_json(const Report& report) {
  Json json{{"trace", report.trace},      {"policy", report.policy}, {"workload", report.workload},
            {"ties", report.ties},        {"memory", report.memory}, {"nodes", report.nodes},
            {"cards", report.cards},      {"seeds", Json::array()},  {"mean", Json::object()},
            {"deviation", Json::object()}};
  for (const SeedResult& seed : report.seeds) json["seeds"].push_back(json_of(seed));
  for (const auto arrived : kReported) {
    const auto spread = spread_at(report.seeds, arrived);
    json["mean"][key_at(arrived)] = spread ? Json(spread->mean) : Json();
    json["deviation"][key_at(arrived)] = spread ? Json(spread->deviation) : Json();
  }
  return json.dump() + "\n";
}

std::string report_table(const Report& report) {
  std::string text = fmt::format(
      "trace {}, policy {}, workload {}, ties {}, memory {}: {} nodes, {} cards\n"
      "percent of the cards' compute that is held when 95, 100 and 130 percent have been asked "
      "for\n\n{:>6}{:>9}{:>9}{:>9}{:>15}{:>10}{:>13}\n",
      report.trace, report.policy, report.workload, report.ties, report.memory, report.nodes,
      report.cards, "seed", "at 95", "at 100", "at 130", "overcommitted", "unplaced",
      "us/decision");
  for (const SeedResult& seed : report.seeds) text += row_of(seed);
  text += row_of_all(report, "mean", &Spread::mean);
  return text + row_of_all(report, "s.d.", &Spread::deviation);
}

}  // namespace mgpu::trace
