// Runs of one trace under one policy: one run for each seed, in parallel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/trace/arrival_order.h"
#include "bench/trace/curve.h"
#include "bench/trace/cycle.h"
#include "bench/trace/decision_stats.h"
#include "bench/trace/objects.h"
#include "bench/trace/placements.h"
#include "bench/trace/price_source.h"
#include "extender/placement/policy.h"

namespace mgpu::trace {

// The options of all runs.
struct RunOptions {
  extender::PolicyChoice policy;
  PriceSourceFactory make_price_source;
  extender::TargetWorkload measure;  // the workload for which fragmentation is measured
  SchedulerRules scheduler{};
  std::int64_t arrived_until = 130;  // percent of the cluster's cards that the pods request
  ArrivalOrder order = ArrivalOrder::kDrawn;
  bool keep_arrivals = false;
};

struct SeedResult {
  std::uint64_t seed = 0;
  std::vector<CurvePoint> curve;  // 0 .. arrived_until
  std::int64_t overcommitted = 0;
  DecisionStats stats;
  Arrivals arrivals;  // has no pods unless keep_arrivals is set

  // The allocation at this percentage of arrived workload. Not set past the end of the curve.
  std::optional<double> at(std::int64_t arrived) const;
};

SeedResult run_seed(const Objects& objects, const RunOptions& options, std::uint64_t seed);

// The results are in the order of `seeds`. REQUIRES: jobs > 0.
std::vector<SeedResult> run_seeds(const Objects& objects, const RunOptions& options,
                                  const std::vector<std::uint64_t>& seeds, std::size_t jobs);

}  // namespace mgpu::trace
