// Pods that come and go, which FGD's protocol does not have: they arrive one by one, drawn from the
// list with replacement, at exponential distances, and those that found a place leave after
// exponential lifetimes. Time is in mean lifetimes: the first kWarmUp of them fill the cluster, the
// next kMeasured are measured. Who fits nowhere is gone.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/trace/run.h"

namespace mgpu::trace {

// After four lifetimes as much is there as ever will be, but for 2 %.
inline constexpr double kWarmUp = 4;
inline constexpr double kMeasured = 4;

// How many pods arrive in a run, on average. `load`: what would be held on average if everybody
// found a place, percent of all cards' compute.
double expected_arrivals(const Trace& trace, double load);

struct TurnoverResult {
  std::uint64_t seed = 0;
  double allocation = 0;     // percent of all cards' compute that is held, mean over time
  double rejected_gpus = 0;  // percent of what was asked for
  double rejected_pods = 0;  // percent of the pods, those without cards too
  std::int64_t overcommitted = 0;
  double us_per_decision = 0;  // of all decisions, and so are the next
  std::int64_t decisions = 0;
  std::vector<Failures> failures;
};

// settings.arrived_until and keep_arrivals do not matter. REQUIRES: load > 0.
TurnoverResult run_turnover(const Objects& objects, const RunSettings& settings, double load,
                            std::uint64_t seed);

// In the order of `seeds`. REQUIRES: jobs > 0.
std::vector<TurnoverResult> run_turnovers(const Objects& objects, const RunSettings& settings,
                                          double load, const std::vector<std::uint64_t>& seeds,
                                          std::size_t jobs);

}  // namespace mgpu::trace
