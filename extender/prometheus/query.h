// Requests to the HTTP API of Prometheus (/api/v1), as values for a kube::Transport. Pure.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "common/base/executor.h"
#include "common/kube/transport.h"

namespace mgpu::promql {

// The values of an expression at one time. Prometheus gives up after `timeout`, and the request is
// given up shortly after that.
kube::Request instant_query(std::string_view expression, std::chrono::sys_seconds at,
                            Duration timeout);

// The values at `from`, `from` + `step` and so on up to `to`.
// REQUIRES: from <= to, step > 0, at most kPointsMax points.
kube::Request range_query(std::string_view expression, std::chrono::sys_seconds from,
                          std::chrono::sys_seconds to, std::chrono::seconds step, Duration timeout);

// `text` as a string of an expression, in quotes: for label values.
std::string quoted(std::string_view text);

}  // namespace mgpu::promql
