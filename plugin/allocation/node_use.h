// What the pods of this node request. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/units.h"
#include "common/contract/contract.h"
#include "common/kube/objects/objects.h"

namespace mgpu::plugin {

struct NodeUse {
  std::int64_t milli_cpu = 0;
  Percent core;  // of all cards together
  bool operator==(const NodeUse&) const = default;
};

// The sums over all pods that have not finished, as kube-scheduler counts them. An amount that
// cannot be read counts as zero: the taint that depends on this is only a preference.
NodeUse use_of(const std::vector<kube::Pod>& pods, const Contract& contract);

}  // namespace mgpu::plugin
