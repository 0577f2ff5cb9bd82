// What the node object shall say, from what is known. Pure.
#pragma once

#include "plugin/cards/inventory.h"
#include "plugin/node/node_publisher.h"

namespace mgpu::plugin {

// `registered`: kubelet reads our devices. `memory_by_kubelet`: mgpu-memory is a device-plugin
// resource.
NodeReport report_of(const InventoryState& inventory, bool registered, bool memory_by_kubelet);

}  // namespace mgpu::plugin
