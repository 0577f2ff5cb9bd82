// The measurements at one cluster size: verbs, forms of requests and loads.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "bench/latency/report.h"
#include "bench/latency/servers.h"
#include "common/base/result.h"

namespace mgpu::bench {

struct Plan {
  std::size_t nodes = 0;
  std::size_t threads = 1;
  std::string policy;
  std::size_t requests = 0;  // number of requests in each measurement
};

// Calls `on_row` after each measurement. Errors: a server does not respond, or the extender and the
// naive extender disagree about whether a node fits.
Result<void> run_plan(const Plan& plan, const std::function<void(const Row&)>& on_row);

}  // namespace mgpu::bench
