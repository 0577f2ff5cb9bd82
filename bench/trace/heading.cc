#include "bench/trace/heading.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace mgpu::trace {

nlohmann::ordered_json json_of(const Heading& heading) {
  return {{"trace", heading.trace}, {"policy", heading.policy},   {"workload", heading.workload},
          {"ties", heading.ties},   {"non_gpu", heading.non_gpu}, {"sampling", heading.sampling},
          {"order", heading.order}, {"memory", heading.memory},   {"nodes", heading.nodes},
          {"cards", heading.cards}};
}

std::string text_of(const Heading& heading) {
  return fmt::format(
      "trace {}, policy {}, workload {}, ties {}, non-GPU pods ranked by {}, sampling {}, "
      "order {}, memory {}: {} nodes, {} cards\n",
      heading.trace, heading.policy, heading.workload, heading.ties, heading.non_gpu,
      heading.sampling, heading.order, heading.memory, heading.nodes, heading.cards);
}

}  // namespace mgpu::trace
