// The demo: the real extender on a loopback port with the in-memory API server, and a scheduler
// that calls it over HTTP for every pending pod.
#pragma once

#include <cstdint>
#include <string>

#include "bench/sim/manifest.h"
#include "common/base/executor.h"
#include "common/base/result.h"

namespace mgpu::sim {

struct DemoOptions {
  Manifests manifests;
  std::string policy;  // the extender's default policy
  std::string resource_domain;
  std::int64_t min_memory_mib = 256;
  std::uint16_t port = 0;      // of the extender, on 127.0.0.1; 0 = any free port
  std::uint16_t web_port = 0;  // of the web page and the inspection, in the same way
  Duration interval{0};        // pause after each pod when standard output is a terminal
  bool json = false;           // a JSON array of the pods in place of text
  bool serve = false;          // whether the extender runs until SIGINT or SIGTERM
};

// The nodes and pods of deploy/examples.
Result<Manifests> embedded_nodes();
Result<Manifests> embedded_pods();

// Schedules all pods and prints the result to standard output. Errors: the extender could not
// start, the API server rejected a manifest, a call of the extender failed.
Result<void> run_demo(const DemoOptions& options);

}  // namespace mgpu::sim
