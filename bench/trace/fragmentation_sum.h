// The expected fragmentation of a whole cluster, updated node by node.
#pragma once

#include <vector>

#include "extender/placement/cluster.h"
#include "extender/pricing/target_workload.h"

namespace mgpu::trace {

// Each run has its own. Not thread-safe. Nodes are given by their index in the trace.
class FragmentationSum {
 public:
  // REQUIRES: `target` outlives this object. Every node counts as 0 until its first update.
  FragmentationSum(const extender::TargetWorkload& target, std::size_t nodes)
      : target_(target), by_node_(nodes, 0) {}

  void update(std::size_t index, const extender::Node& node) {
    const double now = target_.fragmentation(node);
    sum_ += now - by_node_[index];
    by_node_[index] = now;
  }

  // In thousandths of a card.
  double milli() const { return sum_; }

 private:
  const extender::TargetWorkload& target_;
  std::vector<double> by_node_;
  double sum_ = 0;
};

}  // namespace mgpu::trace
