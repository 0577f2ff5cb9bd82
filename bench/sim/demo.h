// The main job on an embedded cluster: the real extender on a loopback port over the in-memory API
// server, and a scheduler loop that asks it over HTTP to place every pending pod.
#pragma once

#include <cstdint>
#include <string>

#include "bench/sim/manifest.h"
#include "common/base/executor.h"
#include "common/base/result.h"

namespace mgpu::sim {

struct DemoSettings {
  Manifests manifests;
  std::string policy;  // the extender's default policy
  std::string resource_domain;
  std::int64_t min_memory_mib = 256;
  std::uint16_t port = 0;  // of the extender, on 127.0.0.1; 0 = any free one
  Duration interval{0};    // between two pods, for people who watch
  bool json = false;       // one JSON array on standard output instead of the screen
  bool serve = false;      // stay until SIGINT or SIGTERM
};

// The manifests that ship (deploy/examples), for those who name none.
Result<Manifests> embedded_nodes();
Result<Manifests> embedded_pods();

// Prints to standard output; returns when done. Errors: the extender could not start, a manifest
// was refused by the API server, a verb did not answer.
Result<void> run_demo(const DemoSettings& settings);

}  // namespace mgpu::sim
