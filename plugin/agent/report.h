// What is published to the Node object. Pure.
#pragma once

#include "common/base/units.h"
#include "plugin/cards/inventory.h"
#include "plugin/node/node_publisher.h"

namespace mgpu::plugin {

// `held` is what pods hold of unhealthy cards (plugin/allocation/offer.h). `registered`: kubelet
// reads the devices. `memory_by_kubelet`: kubelet publishes mgpu-memory, as a device plugin
// resource. `taint`: whether the node may have the taint mgpu-needs-cpu. `use`: what
// pods request, if it is known.
NodeReport report_of(const InventoryState& inventory, const Share& held, bool registered,
                     bool memory_by_kubelet, bool taint = false,
                     std::optional<NodeUse> use = std::nullopt);

}  // namespace mgpu::plugin
