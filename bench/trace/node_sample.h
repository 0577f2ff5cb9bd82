// The nodes that kube-scheduler examines for a pod before it calls its extenders
// (pkg/scheduler/schedule_one.go of 1.36.3: findNodesThatPassFilters, numFeasibleNodesToFind).
//
// It examines nodes in one order, beginning after the last node that it examined for the pod
// before, and stops when enough of them pass its filters: all nodes with percentageOfNodesToScore:
// 100, and by default 50 % minus one percent for each 125 nodes, at least 5 % and at least 100
// nodes. (Its 16 workers examine neighbouring nodes at the same time, so that in a cluster it may
// examine a few more.) Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace mgpu::trace {

enum class Sampling : std::uint8_t {
  kAll,            // percentageOfNodesToScore: 100
  kKubeScheduler,  // not set
};

// How many nodes that pass are enough.
std::size_t nodes_to_find(Sampling sampling, std::size_t nodes);

struct NodeSample {
  std::vector<std::size_t> passing;  // in the order in which they were examined
  std::size_t examined = 0;
};

// Remembers where the last sample ended. Not thread-safe.
class NodeSampler {
 public:
  NodeSampler(Sampling sampling, std::size_t nodes)
      : nodes_(nodes), to_find_(nodes_to_find(sampling, nodes)) {}
  // `passes` is called with numbers below that of the nodes.
  NodeSample next(const std::function<bool(std::size_t)>& passes);

 private:
  std::size_t nodes_;
  std::size_t to_find_;
  std::size_t start_ = 0;
};

}  // namespace mgpu::trace
