// What GET /readyz answers.
//
//   {"ready": true, "api_server": "answers"}
//   {"ready": true, "api_server": "no answer for 12 s", "problem": sentence}
//   {"ready": false, "waiting_for": ["nodes", "pods"], ...}      status 503, as the next
//   {"ready": false, "draining": true, ...}
//
// An API server that falls silent later does not end readiness: filter goes on from memory, and
// taking the only extender out of service would stop scheduling altogether.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/http/message.h"

namespace mgpu {

struct Readiness {
  bool draining = false;
  std::vector<std::string> waiting_for = {};  // not listed yet
  std::chrono::seconds silence{0};            // of the API server, where `problem` is set
  std::string problem = {};                   // of the list or watch that fails; empty: none
  // How many times objects of each collection could not be read, and were skipped; without zeros.
  std::map<std::string, std::uint64_t> unreadable = {};
};

http::Response readiness_response(const Readiness& readiness);

}  // namespace mgpu
