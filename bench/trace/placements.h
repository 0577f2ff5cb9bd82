// The placements of all pods of a run as a file, for comparison with another scheduler.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/trace/cycle.h"
#include "common/base/result.h"

namespace mgpu::trace {

// In order of arrival.
struct Arrival {
  std::size_t pod = 0;                // index into the trace's pods
  std::optional<std::size_t> node{};  // not set if the pod fitted on no node
  Placement cards{};
};

struct Arrivals {
  std::uint64_t seed = 0;
  std::vector<NodeName> nodes;  // names of the trace's nodes in this run
  std::vector<Arrival> pods;
};

// One JSON object that ends with "\n", with amounts as they appear in the Kubernetes objects:
//
//   {"seeds": [{"seed",
//      "nodes": [{"name", "cpu_milli", "memory_mib", "model", "cards", "card_memory_mib"}],
//      "arrivals": [{"pod", "cpu_milli", "memory_mib", "core", "gpu_memory_mib", "models",
//                    "node", "cards"}]}]}
//
// core and gpu_memory_mib are the totals over all cards of the pod; 0 if it requests none. node is
// null if the pod fitted on no node.
std::string placements_json(const Objects& objects, const std::vector<Arrivals>& seeds);

// Error: `path` cannot be written.
Result<void> write_text_file(const std::string& path, const std::string& text);

}  // namespace mgpu::trace
