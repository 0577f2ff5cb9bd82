// The results of runs of a trace as text: one JSON object, or a table. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/trace/run.h"
#include "bench/trace/turnover.h"

namespace mgpu::trace {

// The settings that a report begins with.
struct Heading {
  std::string trace;
  std::string policy;
  std::string workload;
  std::string ties;
  std::string non_gpu;
  std::string sampling;
  std::string order;
  std::string memory;
  std::size_t nodes = 0;
  std::int64_t cards = 0;
};

struct Report {
  struct Column {
    std::string key;
    std::string title;
  };
  struct Row {
    std::uint64_t seed = 0;
    std::vector<std::optional<double>> values{};  // one for each column; not set: not reached
    std::int64_t overcommitted = 0;
    DecisionStats stats;
    std::vector<CurvePoint> curve{};
  };

  Heading heading;
  std::optional<double> load{};  // the offered load, if pods terminate
  std::vector<Column> columns{};
  std::vector<Row> rows{};
};

// Allocated percentages at95, at100 and at130, when the arrived pods request so much.
Report report_of(Heading heading, const std::vector<SeedResult>& seeds);
// The columns allocation, rejected_gpus and rejected_pods.
Report report_of(Heading heading, double load, const std::vector<TurnoverResult>& seeds);

// One line that ends with "\n". Values that a run does not reach are null.
//
//   {"trace", "policy", "workload", "ties", "non_gpu", "sampling", "order", "memory", "nodes",
//    "cards", "load"?,
//    "seeds": [{"seed", a member for each column, "overcommitted", "us_per_decision", "decisions",
//               "unplaced",
//               "curve"?: [{"arrived", "allocation", "fragmentation_amount",
//                           "fragmentation_rate"}]}],
//    "mean": {a member for each column},
//    "deviation": {the same}}    standard deviation of a sample; 0 for one seed
std::string report_json(const Report& report);

std::string report_table(const Report& report);

}  // namespace mgpu::trace
