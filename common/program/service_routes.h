// The HTTP routes that both programs have.
//
//   GET /healthz   200 "ok", or 500 if the executor of the program has run no task for
//                  kHeartbeatMissed
//   GET /livez     the same
//   GET /readyz    200 or 503, see Readiness
//   GET /metrics   the Prometheus text format
//   GET /version   {"version": "0.1.0"}
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/heartbeat.h"
#include "common/base/metrics.h"
#include "common/http/router.h"

namespace mgpu {

// The state that GET /readyz shows:
//
//   {"ready": true, "api_server": "answers"}
//   {"ready": true, "api_server": "no answer for 12 s"}
//   {"ready": true, "without": ["poddisruptionbudgets"], ...}
//   {"ready": true, "role": "follower", "api_server": "answers"}
//   {"ready": false, "waiting_for": ["nodes", "pods"], ...}      status 503, like the next one
//   {"ready": false, "draining": true, ...}
//
// Every client may read it. Therefore it names no objects, and the sentence of the API server is in
// the log only.
//
// A program stays ready when the API server stops answering, because it can work from memory.
struct Readiness {
  bool draining = false;
  std::string role = {};  // if several processes elect a leader: "leader" or "follower"
  std::vector<std::string> waiting_for = {};  // what it needs first, such as collections to list
  std::vector<std::string> without = {};      // what is missing and not needed
  bool failing = false;                       // the last list or watch has failed
  std::chrono::seconds silence{0};            // of the API server, if it is failing
  // How many objects of each collection were skipped because they cannot be read; without zeros.
  std::map<std::string, std::uint64_t> unreadable = {};
};

http::Response readiness_response(const Readiness& readiness);

// `readiness` is called on the threads of the server. All outlive the router. `work` is of the
// executor without which the program does nothing.
void add_service_routes(http::Router& router, Metrics& metrics, const Heartbeat& work,
                        std::function<Readiness()> readiness);

// <prefix>_build_info{version}, <prefix>_log_lines_dropped_total and process_resident_memory_bytes.
void add_process_metrics(Metrics& metrics, const std::string& prefix);

}  // namespace mgpu
