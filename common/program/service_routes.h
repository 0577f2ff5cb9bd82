// What every server of ours answers about itself, whatever its work is.
//
//   GET /healthz   200 "ok"
//   GET /readyz    200 or 503 (common/http/readiness.h)
//   GET /metrics   Prometheus' text format
//   GET /version   {"version": "0.1.0"}
#pragma once

#include <functional>
#include <string>

#include "common/base/metrics.h"
#include "common/http/readiness.h"
#include "common/http/router.h"

namespace mgpu {

// `readiness` is called on the server's threads. Both live as long as the router is used.
void add_service_routes(http::Router& router, Metrics& metrics,
                        std::function<Readiness()> readiness);

// <prefix>_build_info{version} and process_resident_memory_bytes.
void add_process_metrics(Metrics& metrics, const std::string& prefix);

}  // namespace mgpu
