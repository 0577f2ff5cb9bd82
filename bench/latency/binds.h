// Binds: what one costs beside the API server's own time, and whether a thousand a second come
// through.
#pragma once

#include <functional>

#include "bench/latency/cases.h"
#include "bench/latency/report.h"
#include "bench/latency/servers.h"
#include "common/base/result.h"

namespace mgpu::bench {

// Rows of form "own time" (one after the other, each without the time that the API server took)
// and "API server of 1 ms" (whole round trips over several connections at limits::kBindsPerS;
// `load` is the rate that was reached). Errors: binds that fail.
Result<void> run_binds(const Plan& plan, Servers& servers,
                       const std::function<void(const Row&)>& on_row);

}  // namespace mgpu::bench
