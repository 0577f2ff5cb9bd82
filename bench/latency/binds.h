// Measures binds: the time of one bind without the time of the API server, and a sustained rate of
// a thousand binds a second.
#pragma once

#include <functional>

#include "bench/latency/cases.h"
#include "bench/latency/report.h"
#include "bench/latency/servers.h"
#include "common/base/result.h"

namespace mgpu::bench {

// There are rows of two forms. "own time" has sequential binds without the time of the API server.
// "API server of 1 ms" has complete round trips over several connections at limits::kBindsPerS, and
// the reached rate in `load`. Error: a bind fails.
Result<void> run_binds(const Plan& plan, Servers& servers,
                       const std::function<void(const Row&)>& on_row);

}  // namespace mgpu::bench
