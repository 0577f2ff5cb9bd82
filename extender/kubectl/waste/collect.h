// Reads the use of containers from a Prometheus.
#pragma once

#include <string>

#include "common/base/result.h"
#include "extender/kubectl/waste/prometheus_use.h"
#include "extender/prometheus/access.h"

namespace mgpu::kubectl {

// Blocks; each query takes at most kQueryTimeout. Errors: no connection, or an answer that is an
// error. Warnings of Prometheus are problems.
Result<UseFacts> collect_from_prometheus(const promql::Access& access, const UseScope& scope);

}  // namespace mgpu::kubectl
