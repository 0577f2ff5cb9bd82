// `mgpu-sim trace`: a trace of pods through the extender's own decisions, and how full the cards
// became.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/options.h"
#include "common/base/result.h"
#include "extender/placement/policy.h"

namespace mgpu::trace {

// As given on the command line; checked by run_command.
struct CommandFlags {
  std::string traces;  // empty: the synthetic workload
  std::string trace;   // empty: "default", or "synthetic" without --traces
  std::string nodes;   // empty: the folder's
  std::string policy{extender::kDefaultPolicy};
  std::string seeds = "42-51";
  std::string workload = "auto";
  std::string ties = "first";
  std::string plain = "extender";
  std::string memory = "none";
  std::string output = "table";
  std::string placements;  // a file; empty: none
  std::int64_t arrived_until = 130;
  std::int64_t departures = 0;  // percent of the cluster's cards that pods want at once; 0: none
  std::int64_t jobs = 0;        // 0: one for each processor
};

// `flags` outlives the parsing.
void add_command(Options& command, CommandFlags& flags);

// What is to be printed. Errors: one sentence for the first flag or file that is wrong.
Result<std::string> run_command(const CommandFlags& flags);

}  // namespace mgpu::trace
