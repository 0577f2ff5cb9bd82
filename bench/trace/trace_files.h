// A cluster and the pods that come to it, as the openb traces write them (alibaba/clusterdata,
// cluster-trace-gpu-v2023): comma-separated, columns by name, others ignored.
//
//   nodes  sn, cpu_milli, memory_mib, gpu, model
//   pods   name, cpu_milli, memory_mib, num_gpu, gpu_milli, and where it is there gpu_spec
//
// gpu_milli is the share of each of the num_gpu cards in thousandths, a multiple of 10. gpu_spec
// lists the models that will do, "A|B"; empty: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "extender/placement/node_resources.h"

namespace mgpu::trace {

struct TraceNode {
  std::string name;
  extender::NodeResources host;
  std::int32_t cards = 0;
  std::string model;
};

struct TracePod {
  std::string name;
  extender::NodeResources host;
  std::int32_t cards = 0;           // 0: asks for none
  std::int32_t milli = 0;           // of each card, 10 .. 1000 in steps of 10; 0 without cards
  std::vector<std::string> models;  // as listed: the traces name some twice

  std::int64_t total_milli() const { return std::int64_t{cards} * milli; }
};

struct Trace {
  std::vector<TraceNode> nodes;
  std::vector<TracePod> pods;
  std::int64_t cards() const;
};

// Errors: those of Table, and values out of range: file, line, column, what was expected; a node or
// pod named twice; a list without nodes, cards, or pods that ask for cards.
Result<std::vector<TraceNode>> read_nodes(std::string_view text, const std::string& source);
Result<std::vector<TracePod>> read_pods(std::string_view text, const std::string& source);

// `folder`/openb_node_list_gpu_node.csv, or `nodes_file` where it is not empty, and
// `folder`/openb_pod_list_<name>.csv. Errors: also a folder that is not there, and a trace that it
// does not have: the sentence lists those that it has.
Result<Trace> read_trace(const std::string& folder, const std::string& name,
                         const std::string& nodes_file);

// The workload that ships, for those who have no traces. `nodes_file` as above.
Result<Trace> synthetic_trace(const std::string& nodes_file);

}  // namespace mgpu::trace
