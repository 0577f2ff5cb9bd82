// The files of an NVIDIA driver that programs in containers need.
#pragma once

#include <string>
#include <vector>

#include "plugin/allocation/edits.h"

namespace mgpu::plugin {

// Nodes that all cards share (nvidiactl, nvidia-uvm, nvidia-uvm-tools), as far as they are there.
// `node_root` is where this process sees the node's files.
std::vector<DeviceNode> control_nodes(const std::string& node_root);

// The user libraries of the driver that is installed in `driver_root` of the node, read only. Each
// is mounted into both folders that a loader searches by itself (Debian's and Red Hat's), so that
// no ldconfig has to run in the container. Nothing where there is no driver.
std::vector<Mount> driver_libraries(const std::string& node_root, const std::string& driver_root);

}  // namespace mgpu::plugin
