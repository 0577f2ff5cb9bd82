// Results with pods that come and go as text: one JSON object, or a table for people. Pure.
#pragma once

#include <string>
#include <vector>

#include "bench/trace/heading.h"
#include "bench/trace/turnover.h"

namespace mgpu::trace {

struct TurnoverReport {
  Heading heading;
  double load = 0;
  std::vector<TurnoverResult> seeds;  // one at least
};

// Ends with a line end.
//
//   {the heading's, "load",
//    "seeds": [{"seed", "allocation", "rejected_gpus", "rejected_pods", "overcommitted",
//               "us_per_decision", "decisions", "failures": [{"size", "pods", "gpus"}]}],
//    "mean": {"allocation", "rejected_gpus", "rejected_pods"}, "deviation": the same}
std::string turnover_json(const TurnoverReport& report);

std::string turnover_table(const TurnoverReport& report);

}  // namespace mgpu::trace
