// Reads a cluster and its pods from files in the format of the openb traces (alibaba/clusterdata,
// cluster-trace-gpu-v2023): comma-separated values with these columns. Other columns are ignored.
//
//   nodes  sn, cpu_milli, memory_mib, gpu, model
//   pods   name, cpu_milli, memory_mib, num_gpu, gpu_milli, and optionally gpu_spec
//
// gpu_milli is the share of each of the num_gpu cards in thousandths, a multiple of 10. gpu_spec
// lists the accepted models, such as "A|B"; if it is empty, any model is accepted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "extender/placement/node_resources.h"

namespace mgpu::trace {

struct TraceNode {
  std::string name;
  extender::NodeResources resources;
  std::int32_t cards = 0;
  std::string model{};
};

struct TracePod {
  std::string name;
  extender::NodeResources resources;
  std::int32_t cards = 0;             // 0 for a non-GPU pod
  std::int32_t milli = 0;             // of each card, 10 to 1000 in steps of 10; 0 without cards
  std::vector<std::string> models{};  // as in the file, which names some models twice

  std::int64_t total_milli() const { return std::int64_t{cards} * milli; }
};

struct Trace {
  std::vector<TraceNode> nodes;
  std::vector<TracePod> pods;
  std::int64_t cards() const;
};

// Errors: those of read_table(); a value out of range; a node or pod named twice; a list without
// nodes, without cards, or without pods that request cards.
Result<std::vector<TraceNode>> read_nodes(std::string_view text, const std::string& source);
Result<std::vector<TracePod>> read_pods(std::string_view text, const std::string& source);

// Reads `folder`/openb_pod_list_<name>.csv, and `nodes_file` or, if that is empty,
// `folder`/openb_node_list_gpu_node.csv. Errors: also a missing folder, and a trace that the folder
// does not have; the message lists those that it has.
Result<Trace> read_trace(const std::string& folder, const std::string& name,
                         const std::string& nodes_file);

// The synthetic workload, with its own nodes or those of `nodes_file`.
Result<Trace> synthetic_trace(const std::string& nodes_file);

}  // namespace mgpu::trace
