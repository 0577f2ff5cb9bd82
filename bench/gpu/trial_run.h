// One trial from beginning to end: the machine, the checks, the settings; the table and the files.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "bench/gpu/trial.h"

namespace mgpu::gpu_trial {

struct RunOptions {
  std::string output;                        // folder for results.json, log.txt and mps.log
  std::vector<std::string> only;             // names of checks; empty: all
  std::chrono::milliseconds time_limit{0};   // for all checks together
  std::chrono::milliseconds check_limit{0};  // for each, beside its own limit
};

// The exit code of the program: README.md lists them. Prints the table to standard output, and to
// standard error why there is none.
int run_trial(Trial trial, const RunOptions& options);

}  // namespace mgpu::gpu_trial
