// Runs a complete trial: the description of the machine, the checks, the settings, and the reports.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "bench/gpu/trial.h"

namespace mgpu::gpu_trial {

struct RunOptions {
  std::string output;                        // folder for results.json, log.txt and mps.log
  std::vector<std::string> only;             // names of checks; empty for all
  std::chrono::milliseconds time_limit{0};   // limit for all checks together
  std::chrono::milliseconds check_limit{0};  // limit for each check, in addition to its own
};

// Returns the exit code of the program, which README.md lists. Prints the table to standard output,
// or the reason why there is none to standard error.
int run_trial(Trial trial, const RunOptions& options);

}  // namespace mgpu::gpu_trial
