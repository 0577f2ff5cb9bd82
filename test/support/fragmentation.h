// The fragmentation of a node by its definition, in classes * cards steps: what TargetWorkload
// (extender/pricing/target_workload.h), which has the formula, is checked against.
#pragma once

#include "extender/placement/cluster.h"
#include "extender/pricing/workload.h"

namespace mgpu::test {

// F_n(m), 0 .. 1000 * cards.
double fragmentation(const extender::Node& node, const extender::PodClass& what);

// F_n(M), 0 .. 1000 * cards; 0 where the workload is empty.
double expected_fragmentation(const extender::Node& node, const extender::Workload& workload);

}  // namespace mgpu::test
