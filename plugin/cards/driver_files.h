// The files of an NVIDIA driver that programs in containers need.
#pragma once

#include <string>
#include <vector>

#include "plugin/allocation/edits.h"

namespace mgpu::plugin {

// The device nodes that all cards share (nvidiactl, nvidia-uvm, nvidia-uvm-tools), if they exist.
// `node_root` is where this process sees the node's files.
std::vector<DeviceNode> control_nodes(const std::string& node_root);

// The user libraries of the driver installed in `driver_root` of the node, read only. Each is
// mounted into both folders that a loader searches by default (Debian's and Red Hat's), so that no
// ldconfig has to run in the container. Empty if there is no driver.
std::vector<Mount> driver_libraries(const std::string& node_root, const std::string& driver_root);

}  // namespace mgpu::plugin
