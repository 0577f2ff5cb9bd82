// The runs of one trace under one policy, one for each seed, in parallel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/trace/curve.h"
#include "bench/trace/cycle.h"
#include "bench/trace/market_maker.h"
#include "bench/trace/objects.h"
#include "bench/trace/placements.h"
#include "bench/trace/tally.h"
#include "extender/placement/policy.h"

namespace mgpu::trace {

// Everything that the runs share.
struct RunSettings {
  extender::PolicyChoice policy;
  MakeMarketMaker make_market_maker;
  extender::TargetWorkload measure;  // what fragmentation is measured by, whatever policies know
  SchedulerRules scheduler{};
  std::int64_t arrived_until = 130;  // percent of the cluster's cards that are asked for in all
  bool keep_arrivals = false;
};

struct SeedResult {
  std::uint64_t seed = 0;
  std::vector<CurvePoint> curve;  // 0 .. arrived_until
  std::int64_t overcommitted = 0;
  double us_per_decision = 0;  // mean of filter, prioritize and assume
  std::int64_t decisions = 0;
  std::vector<Failures> failures;  // every size that was asked for, ascending
  Arrivals arrivals;               // without pods unless they are to be kept

  // Allocation; none past the end of the curve.
  std::optional<double> at(std::int64_t arrived) const;
};

SeedResult run_seed(const Objects& objects, const RunSettings& settings, std::uint64_t seed);

// In the order of `seeds`. REQUIRES: jobs > 0.
std::vector<SeedResult> run_seeds(const Objects& objects, const RunSettings& settings,
                                  const std::vector<std::uint64_t>& seeds, std::size_t jobs);

}  // namespace mgpu::trace
