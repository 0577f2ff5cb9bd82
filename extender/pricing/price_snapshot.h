// The expected workload, and the value of free cards for it. A snapshot is built outside the
// scheduling path, is immutable, and is used by all decisions until the next one is published.
// Pure.
#pragma once

#include <cstdint>

#include "extender/pricing/prices.h"
#include "extender/pricing/target_workload.h"
#include "extender/pricing/workload.h"

namespace mgpu::extender {

struct PriceSnapshot {
  std::uint64_t version = 0;  // differs between price snapshots of one process
  Workload workload;
  TargetWorkload target;  // of which fragmentation is measured
  Prices prices;          // of `workload`'s classes
  PriceTables tables;     // for the policy equilibrium, which is binpack where they are empty
};

}  // namespace mgpu::extender
