// What is known of the pods to come, and what room is worth to them: made off the hot path, never
// changed, shared by every decision until the next one takes its place. Pure.
#pragma once

#include <cstdint>

#include "extender/pricing/prices.h"
#include "extender/pricing/target_workload.h"
#include "extender/pricing/workload.h"

namespace mgpu::extender {

struct PriceSnapshot {
  std::uint64_t version = 0;  // differs between price snapshots of one process
  Workload workload;
  TargetWorkload target;  // of `workload`, for FGD: empty, and FGD is BestFit
  Prices prices;          // of `workload`'s classes
  PriceTables tables;     // of these prices, for equilibrium: empty, and it is binpack
};

}  // namespace mgpu::extender
