// The kernel module nvidia-uvm, which CUDA needs and no driver loads by itself when a node starts.
#pragma once

#include <string>

#include "common/base/result.h"
#include "plugin/cards/driver/driver_files.h"

namespace mgpu::plugin {

// Loads nvidia-uvm on the node and makes its device nodes: by nvidia-modprobe, or, where that does
// not help, by modprobe and mknod. Both are programs of the node, searched below `place.node_root`,
// and run with it as their root, so that they find the node's modules. The device nodes have the
// owner, group and mode of the driver's parameters, and are not made where these forbid it, as
// with NVIDIA's own program. `modprobe` is the name of nvidia-modprobe. Errors: one sentence; needs
// CAP_SYS_CHROOT, CAP_SYS_MODULE, CAP_MKNOD, and CAP_CHOWN for another owner than root.
Result<void> load_uvm(const DriverPlace& place, const std::string& modprobe);

}  // namespace mgpu::plugin
