// The results of runs in which pods terminate, as text: one JSON object, or a table. Pure.
#pragma once

#include <string>
#include <vector>

#include "bench/trace/heading.h"
#include "bench/trace/turnover.h"

namespace mgpu::trace {

struct TurnoverReport {
  Heading heading;
  double load = 0;
  std::vector<TurnoverResult> seeds;  // not empty
};

// One line that ends with "\n".
//
//   {the members of the heading, "load",
//    "seeds": [{"seed", "allocation", "rejected_gpus", "rejected_pods", "overcommitted",
//               "us_per_decision", "decisions", "failures": [{"size", "pods", "gpus"}]}],
//    "mean": {"allocation", "rejected_gpus", "rejected_pods"},
//    "deviation": {"allocation", "rejected_gpus", "rejected_pods"}}
std::string turnover_json(const TurnoverReport& report);

std::string turnover_table(const TurnoverReport& report);

}  // namespace mgpu::trace
