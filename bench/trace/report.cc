#include "bench/trace/report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace mgpu::trace {
namespace {

// ordered_json keeps the order in which members are added.
using Json = nlohmann::ordered_json;

constexpr std::int64_t kReported[] = {95, 100, 130};

struct Spread {
  std::optional<double> mean{};
  std::optional<double> deviation{};
};

// Nothing if a run ends before the value.
Spread spread_of(const Report& report, std::size_t column) {
  double sum = 0;
  for (const Report::Row& row : report.rows) {
    if (!row.values[column]) return {};
    sum += *row.values[column];
  }
  if (report.rows.empty()) return {};
  const auto count = static_cast<double>(report.rows.size());
  const double mean = sum / count;
  double squares = 0;
  for (const Report::Row& row : report.rows) {
    squares += (*row.values[column] - mean) * (*row.values[column] - mean);
  }
  return {mean, count > 1 ? std::sqrt(squares / (count - 1)) : 0};
}

Json number_or_null(const std::optional<double>& number) {
  return number ? Json(*number) : Json();
}

Json json_of(const Heading& heading) {
  return {{"trace", heading.trace}, {"policy", heading.policy},   {"workload", heading.workload},
          {"ties", heading.ties},   {"non_gpu", heading.non_gpu}, {"sampling", heading.sampling},
          {"order", heading.order}, {"memory", heading.memory},   {"nodes", heading.nodes},
          {"cards", heading.cards}};
}

Json json_of(const Report& report, const Report::Row& row) {
  Json json{{"seed", row.seed}};
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    json[report.columns[i].key] = number_or_null(row.values[i]);
  }
  json["overcommitted"] = row.overcommitted;
  json["us_per_decision"] = row.stats.us_per_decision();
  json["decisions"] = row.stats.decisions;
  json["unplaced"] = row.stats.unplaced;
  for (const CurvePoint& point : row.curve) {
    json["curve"].push_back({{"arrived", point.arrived},
                             {"allocation", point.allocation},
                             {"fragmentation_amount", point.fragmentation_amount},
                             {"fragmentation_rate", point.fragmentation_rate}});
  }
  return json;
}

std::string cell(const std::optional<double>& number) {
  return number ? fmt::format("{:>16.2f}", *number) : fmt::format("{:>16}", "-");
}

std::string row_of(const Report::Row& row) {
  std::string text = fmt::format("{:>6}", row.seed);
  for (const auto& value : row.values) text += cell(value);
  return text + fmt::format("{:>15}{:>10}{:>13.1f}\n", row.overcommitted, row.stats.unplaced,
                            row.stats.us_per_decision());
}

std::string row_of_all(const Report& report, const char* title,
                       std::optional<double> Spread::*value) {
  std::string row = fmt::format("{:>6}", title);
  for (std::size_t i = 0; i < report.columns.size(); ++i) {
    row += cell(spread_of(report, i).*value);
  }
  return row + "\n";
}

}  // namespace

Report report_of(Heading heading, const std::vector<SeedResult>& seeds) {
  Report report{.heading = std::move(heading)};
  for (const auto arrived : kReported) {
    report.columns.push_back({fmt::format("at{}", arrived), fmt::format("at {}", arrived)});
  }
  for (const SeedResult& seed : seeds) {
    Report::Row row{.seed = seed.seed,
                    .overcommitted = seed.overcommitted,
                    .stats = seed.stats,
                    .curve = seed.curve};
    for (const auto arrived : kReported) row.values.push_back(seed.at(arrived));
    report.rows.push_back(std::move(row));
  }
  return report;
}

Report report_of(Heading heading, double load, const std::vector<TurnoverResult>& seeds) {
  Report report{.heading = std::move(heading),
                .load = load,
                .columns = {{"allocation", "held %"},
                            {"rejected_gpus", "rejected GPU %"},
                            {"rejected_pods", "rejected %"}}};
  for (const TurnoverResult& seed : seeds) {
    report.rows.push_back({.seed = seed.seed,
                           .values = {seed.allocation, seed.rejected_gpus, seed.rejected_pods},
                           .overcommitted = seed.overcommitted,
                           .stats = seed.stats});
  }
  return report;
}

std::string report_json(const Report& report) {
  Json json = json_of(report.heading);
  if (report.load) json["load"] = *report.load;
  json["seeds"] = Json::array();
  json["mean"] = json["deviation"] = Json::object();
  for (const Report::Row& row : report.rows) json["seeds"].push_back(json_of(report, row));
  for (std::size_t i = 0; i < report.columns.size(); ++i) {
    const Spread spread = spread_of(report, i);
    json["mean"][report.columns[i].key] = number_or_null(spread.mean);
    json["deviation"][report.columns[i].key] = number_or_null(spread.deviation);
  }
  return json.dump() + "\n";
}

std::string report_table(const Report& report) {
  const Heading& heading = report.heading;
  std::string text = fmt::format(
      "trace {}, policy {}, workload {}, ties {}, non-GPU pods ranked by {}, sampling {}, "
      "order {}, memory {}: {} nodes, {} cards\n",
      heading.trace, heading.policy, heading.workload, heading.ties, heading.non_gpu,
      heading.sampling, heading.order, heading.memory, heading.nodes, heading.cards);
  text += report.load
              ? fmt::format("pods terminate; the offered load is {} percent of all cards' compute",
                            *report.load)
              : "allocated percentage of all cards' compute when the arrived pods request 95, 100 "
                "and 130 percent of it";
  text += fmt::format("\n\n{:>6}", "seed");
  for (const Report::Column& column : report.columns) text += fmt::format("{:>16}", column.title);
  text += fmt::format("{:>15}{:>10}{:>13}\n", "overcommitted", "unplaced", "us/decision");
  for (const Report::Row& row : report.rows) text += row_of(row);
  text += row_of_all(report, "mean", &Spread::mean);
  return text + row_of_all(report, "s.d.", &Spread::deviation);
}

}  // namespace mgpu::trace
