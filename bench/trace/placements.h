// Where every pod of a run went, as a file: what another scheduler is compared with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/trace/cycle.h"
#include "common/base/result.h"

namespace mgpu::trace {

// In order of arrival.
struct Arrival {
  std::size_t pod = 0;                // index into the trace's
  std::optional<std::size_t> node{};  // none: it fitted nowhere
  Placement cards{};
};

struct Arrivals {
  std::uint64_t seed = 0;
  std::vector<NodeName> nodes;  // what the trace's are called in this run
  std::vector<Arrival> pods;
};

// Ends with a line end. One object; amounts as the API server is told them:
//
//   {"seeds": [{"seed",
//      "nodes": [{"name", "cpu_milli", "memory_mib", "model", "cards", "card_memory_mib"}],
//      "arrivals": [{"pod", "cpu_milli", "memory_mib", "core", "gpu_memory_mib", "models",
//                    "node", "cards"}]}]}
//
// core and gpu_memory_mib are those of all its cards together, 0 where it does not ask; node is
// null where it fitted nowhere.
std::string placements_json(const Objects& objects, const std::vector<Arrivals>& seeds);

// Errors: `path` cannot be written.
Result<void> write_text_file(const std::string& path, const std::string& text);

}  // namespace mgpu::trace
