// Runs in which pods terminate, which FGD's protocol does not have. Pods are drawn from the list
// with replacement and arrive with exponentially distributed intervals; placed pods terminate after
// exponentially distributed lifetimes. The unit of time is the mean lifetime. The first kWarmUp
// lifetimes fill the cluster, and the next kMeasured are measured. A pod that fits on no node is
// rejected and not tried again.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/trace/run.h"

namespace mgpu::trace {

// After four lifetimes the load is within 2 % of its final value.
inline constexpr double kWarmUp = 4;
inline constexpr double kMeasured = 4;

// The mean number of arrivals in a run. `load` is the offered load: the percentage of all cards'
// compute that would be held on average if every pod were placed.
double expected_arrivals(const Trace& trace, double load);

struct TurnoverResult {
  std::uint64_t seed = 0;
  double allocation = 0;     // allocated percentage of all cards' compute, mean over time
  double rejected_gpus = 0;  // rejected percentage of the requested compute
  double rejected_pods = 0;  // rejected percentage of the pods, non-GPU pods included
  std::int64_t overcommitted = 0;
  DecisionStats stats;  // with the decisions of the warm-up
};

// options.arrived_until and keep_arrivals are not used. REQUIRES: load > 0.
TurnoverResult run_turnover(const Objects& objects, const RunOptions& options, double load,
                            std::uint64_t seed);

// The results are in the order of `seeds`. REQUIRES: jobs > 0.
std::vector<TurnoverResult> run_turnovers(const Objects& objects, const RunOptions& options,
                                          double load, const std::vector<std::uint64_t>& seeds,
                                          std::size_t jobs);

}  // namespace mgpu::trace
