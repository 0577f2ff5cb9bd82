// What is compared: verbs, forms and loads at one cluster size.
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
  std::size_t requests = 0;  // of each measurement
};

// Rows come as they are measured. Errors: a server that does not answer, and answers of the
// extender and the naive one that name another number of nodes that fit.
Result<void> run_plan(const Plan& plan, const std::function<void(const Row&)>& on_row);

}  // namespace mgpu::bench
