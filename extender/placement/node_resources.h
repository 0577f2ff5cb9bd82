// CPU and main memory of a node or a pod, as kube-scheduler counts them. Placement takes them into
// account because free cards on a node without free CPU cannot be used. Value; pure.
#pragma once

#include "common/base/units.h"

namespace mgpu::extender {

// Thousandths of a core.
using MilliCpu = Amount<struct MilliCpuTag>;

// Sums end at the largest amount and differences at zero: what pods request only decides which node
// is better, and pods may request anything.
struct NodeResources {
  MilliCpu cpu;
  MiB memory;

  constexpr bool operator==(const NodeResources&) const = default;
  constexpr NodeResources& operator+=(const NodeResources& other) {
    cpu = cpu.plus_saturating(other.cpu);
    memory = memory.plus_saturating(other.memory);
    return *this;
  }
  constexpr NodeResources& operator-=(const NodeResources& other) {
    cpu = cpu.minus_saturating(other.cpu);
    memory = memory.minus_saturating(other.memory);
    return *this;
  }
  constexpr bool zero() const { return cpu.zero() && memory.zero(); }
  constexpr bool fits_in(const NodeResources& room) const {
    return cpu <= room.cpu && memory <= room.memory;
  }
};

// The larger of each dimension.
constexpr NodeResources max_of(const NodeResources& a, const NodeResources& b) {
  return {a.cpu < b.cpu ? b.cpu : a.cpu, a.memory < b.memory ? b.memory : a.memory};
}

// `allocatable` minus `used`, zero in a dimension that is over-full.
constexpr NodeResources room_in(const NodeResources& allocatable, const NodeResources& used) {
  return {allocatable.cpu.minus_saturating(used.cpu),
          allocatable.memory.minus_saturating(used.memory)};
}

}  // namespace mgpu::extender
