// The results of a trial, as a table and as JSON. Pure.
//
//   {"trial": {"version", "date", "seconds", "interrupted"?},
//    "machine": {fact: value, ...},
//    "checks": [{"name", "question", "status", "reason"?, "seconds",
//                "facts": [{"fact", "value", "unit"?}*],
//                "expectations": [{"expectation", "held", "detail"?}*]}*]}
#pragma once

#include <string>
#include <vector>

#include "bench/gpu/runner.h"

namespace mgpu::gpu_trial {

struct Report {
  std::string date;  // RFC 3339
  double seconds = 0;
  bool interrupted = false;
  Outcome machine;  // outcome of inspect_machine, which precedes the checks
  std::vector<Outcome> checks;
};

// The part of the table about one check: its status, its facts, and the expectations that failed.
std::string table_of(const Outcome& outcome);
// A summary such as "19 passed, 1 FAILED, 1 skipped".
std::string summary_of(const Report& report);
std::string json_of(const Report& report);
// Whether every check passed or was skipped.
bool all_passed(const Report& report);

}  // namespace mgpu::gpu_trial
