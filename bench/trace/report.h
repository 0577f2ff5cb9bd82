// The results of a trace as text: one JSON object, or a table. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/trace/heading.h"
#include "bench/trace/run.h"

namespace mgpu::trace {

struct Report {
  Heading heading;
  std::vector<SeedResult> seeds;
};

// One line that ends with "\n". Values that a run does not reach are null.
//
//   {the members of the heading,
//    "seeds": [{"seed", "at95", "at100", "at130", "overcommitted", "us_per_decision", "decisions",
//               "failures": [{"size", "pods", "gpus"}],
//               "curve": [{"arrived", "allocation", "fragmentation_amount",
//                          "fragmentation_rate"}]}],
//    "mean": {"at95", "at100", "at130"},
//    "deviation": {"at95", "at100", "at130"}}    standard deviation of a sample; 0 for one seed
std::string report_json(const Report& report);

std::string report_table(const Report& report);

nlohmann::ordered_json json_of(const std::vector<Failures>& all);

}  // namespace mgpu::trace
