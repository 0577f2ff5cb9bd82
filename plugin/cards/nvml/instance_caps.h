// The device files with which a container may use one MIG device, besides that of its card
// (docs.nvidia.com/datacenter/tesla/mig-user-guide, "Device nodes and capabilities").
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace mgpu::plugin::nvml {

// The minor numbers of /dev/nvidia-caps/nvidia-cap<N>, by what they are for:
// "gpu0/gi3/access", "gpu0/gi3/ci0/access".
using InstanceCaps = std::map<std::string, unsigned, std::less<>>;

// Reads /proc/driver/nvidia-caps/mig-minors of the node. Empty: it cannot be read.
InstanceCaps read_instance_caps(const std::string& node_root);
// Lines that are not "<name> <number>" are left out. Pure.
InstanceCaps parse_instance_caps(std::string_view text);

}  // namespace mgpu::plugin::nvml
