// The command `mgpu-sim trace`. It schedules the pods of a trace with the extender's own code and
// reports how much of the cards is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/options.h"
#include "common/base/result.h"
#include "extender/placement/policy.h"

namespace mgpu::trace {

// The flags as given on the command line. run_command checks them.
struct CommandFlags {
  std::string traces;  // empty: the synthetic workload
  std::string trace;   // empty: "default", or "synthetic" without --traces
  std::string nodes;   // empty: the folder's
  std::string policy{extender::kDefaultPolicy};
  std::string seeds = "42-51";
  std::string workload = "auto";
  std::string ties = "first";
  std::string non_gpu = "auto";
  std::string sampling = "auto";
  std::string order = "drawn";
  std::string memory = "none";
  std::string output = "table";
  std::string placements;  // a file; empty: none
  std::int64_t arrived_until = 130;
  std::int64_t departures = 0;  // offered load, percent of the cluster's cards; 0: no pod leaves
  std::int64_t jobs = 0;        // 0: one for each processor
};

// REQUIRES: `flags` outlives `command`.
void add_command(Options& command, CommandFlags& flags);

// Returns the text to print. Errors: a flag or a file is wrong.
Result<std::string> run_command(const CommandFlags& flags);

}  // namespace mgpu::trace
