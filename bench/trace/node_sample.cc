#include "bench/trace/node_sample.h"

#include <algorithm>

namespace mgpu::trace {
namespace {

constexpr std::size_t kLeast = 100;       // minFeasibleNodesToFind
constexpr std::size_t kLeastPercent = 5;  // minFeasibleNodesPercentageToFind
constexpr std::size_t kMostPercent = 50;
constexpr std::size_t kNodesPerPercent = 125;

}  // namespace

std::size_t nodes_to_find(Sampling sampling, std::size_t nodes) {
  if (sampling == Sampling::kAll || nodes < kLeast) return nodes;
  const std::size_t less = std::min(kMostPercent - kLeastPercent, nodes / kNodesPerPercent);
  return std::max(kLeast, nodes * (kMostPercent - less) / 100);
}

NodeSample NodeSampler::next(const std::function<bool(std::size_t)>& passes) {
  NodeSample sample;
  while (sample.examined < nodes_ && sample.passing.size() < to_find_) {
    const std::size_t node = (start_ + sample.examined++) % nodes_;
    if (passes(node)) sample.passing.push_back(node);
  }
  start_ = (start_ + sample.examined) % nodes_;
  return sample;
}

}  // namespace mgpu::trace
