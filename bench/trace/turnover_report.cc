#include "bench/trace/turnover_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/trace/report.h"
#include "bench/trace/spread.h"

namespace mgpu::trace {
namespace {

// ordered_json keeps the order in which members are added.
using Json = nlohmann::ordered_json;

struct Column {
  const char* key;
  double TurnoverResult::*value;
};
constexpr Column kColumns[] = {{"allocation", &TurnoverResult::allocation},
                               {"rejected_gpus", &TurnoverResult::rejected_gpus},
                               {"rejected_pods", &TurnoverResult::rejected_pods}};

Json json_of(const TurnoverResult& seed) {
  Json json{{"seed", seed.seed}};
  for (const Column& column : kColumns) json[column.key] = seed.*column.value;
  json["overcommitted"] = seed.overcommitted;
  json["us_per_decision"] = seed.us_per_decision;
  json["decisions"] = seed.decisions;
  json["failures"] = json_of(seed.failures);
  return json;
}

Spread spread_over_seeds(const TurnoverReport& report, const Column& column) {
  std::vector<double> values;
  for (const TurnoverResult& seed : report.seeds) values.push_back(seed.*column.value);
  return spread_of(values);
}

std::string row_of(const TurnoverResult& seed) {
  std::string row = fmt::format("{:>6}", seed.seed);
  for (const Column& column : kColumns) row += fmt::format("{:>15.2f}", seed.*column.value);
  return row + fmt::format("{:>15}{:>13.1f}\n", seed.overcommitted, seed.us_per_decision);
}

std::string row_of_all(const TurnoverReport& report, const char* title, double Spread::*value) {
  std::string row = fmt::format("{:>6}", title);
  for (const Column& column : kColumns)
    row += fmt::format("{:>15.2f}", spread_over_seeds(report, column).*value);
  return row + "\n";
}

}  // namespace

std::string turnover_json(const TurnoverReport& report) {
  Json json = json_of(report.heading);
  json["load"] = report.load;
  json["seeds"] = Json::array();
  for (const TurnoverResult& seed : report.seeds) json["seeds"].push_back(json_of(seed));
  for (const Column& column : kColumns) {
    const Spread spread = spread_over_seeds(report, column);
    json["mean"][column.key] = spread.mean;
    json["deviation"][column.key] = spread.deviation;
  }
  return json.dump() + "\n";
}

std::string turnover_table(const TurnoverReport& report) {
  std::string text = text_of(report.heading);
  text += fmt::format(
      "pods terminate; the offered load is {} percent of all cards' compute\n\n"
      "{:>6}{:>15}{:>15}{:>15}{:>15}{:>13}\n",
      report.load, "seed", "held %", "rejected GPU %", "rejected %", "overcommitted",
      "us/decision");
  for (const TurnoverResult& seed : report.seeds) text += row_of(seed);
  text += row_of_all(report, "mean", &Spread::mean);
  return text + row_of_all(report, "s.d.", &Spread::deviation);
}

}  // namespace mgpu::trace
