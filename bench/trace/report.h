// A trace's results as text: one JSON object, or a table for people. Pure.
#pragma once

#include <string>
#include <vector>

#include "bench/trace/run.h"

namespace mgpu::trace {

struct Report {
  std::string trace;
  std::string policy;
  std::string workload;
  std::string ties;
  std::string memory;
  std::size_t nodes = 0;
  std::int64_t cards = 0;
  std::vector<SeedResult> seeds;
};

// Ends with a line end. Values that a run does not reach are null.
//
//   {"trace", "policy", "workload", "ties", "memory", "nodes", "cards",
//    "seeds": [{"seed", "at95", "at100", "at130", "overcommitted", "us_per_decision", "decisions",
//               "failures": [{"size", "pods", "gpus"}],
//               "curve": [{"arrived", "allocation", "fragmentation_amount",
//                          "fragmentation_rate"}]}],
//    "mean": {"at95", "at100", "at130"}, "deviation": the same, of a sample; 0 of one seed}
std::string report_json(const Report& report);

std::string report_table(const Report& report);

}  // namespace mgpu::trace
