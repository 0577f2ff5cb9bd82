#include "bench/trace/default_scores.h"

#include <cmath>

namespace mgpu::trace {
namespace {

constexpr std::int64_t kMost = 100;  // MaxNodeScore

std::int64_t free_percent(std::int64_t free, std::int64_t allocatable) {
  return allocatable == 0 ? 0 : free * kMost / allocatable;
}

std::int64_t least_allocated(const NodeCapacity& node, const extender::NodeResources& wanted) {
  const std::int64_t cpu =
      free_percent((node.free.cpu - wanted.cpu).value(), node.allocatable.cpu.value());
  const std::int64_t memory =
      free_percent((node.free.memory - wanted.memory).value(), node.allocatable.memory.value());
  return (cpu + memory) / 2;
}

double used_fraction(std::int64_t free, std::int64_t allocatable) {
  if (allocatable == 0) return 0;
  return static_cast<double>(allocatable - free) / static_cast<double>(allocatable);
}

std::int64_t balance(const extender::NodeResources& allocatable,
                     const extender::NodeResources& free) {
  const double cpu = used_fraction(free.cpu.value(), allocatable.cpu.value());
  const double memory = used_fraction(free.memory.value(), allocatable.memory.value());
  return static_cast<std::int64_t>((1 - std::abs(cpu - memory) / 2) * kMost);
}

std::int64_t balanced(const NodeCapacity& node, const extender::NodeResources& wanted) {
  const extender::NodeResources after{node.free.cpu - wanted.cpu, node.free.memory - wanted.memory};
  const std::int64_t gained =
      balance(node.allocatable, after) - balance(node.allocatable, node.free);
  return kMost / 2 + (kMost / 2 + gained) / 2;
}

}  // namespace

std::int64_t default_score(const NodeCapacity& node, const extender::NodeResources& wanted) {
  return least_allocated(node, wanted) + balanced(node, wanted);
}

}  // namespace mgpu::trace
