// The files of an NVIDIA driver that programs in containers need, wherever it is installed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "plugin/allocation/edits.h"

namespace mgpu::plugin {

struct DriverPlace {
  std::string node_root = "/";    // where this process sees the node's files
  std::string driver_root = "/";  // on the node: the root of the file system with the driver
  std::string version{};          // of the kernel module, "580.95.05"; empty: not known
  std::string nvml{};             // the file that NVML was loaded from; empty: not known
};

// Where NVML may be found, as paths for this process: in `driver_root` if it is not empty, in the
// usual folders of the node, and in the driver container of NVIDIA's GPU operator. At least one.
std::vector<std::string> nvml_libraries(const std::string& node_root,
                                        const std::string& driver_root);

// The root of the file system from which NVML was loaded: "/run/nvidia/driver" for the driver
// container, else "/".
std::string driver_root_of(std::string_view nvml_library);

// Whether the node has /dev/nvidia-uvm, and the kernel module that it belongs to.
bool has_uvm(const DriverPlace& place);
// The major number of nvidia-uvm in /proc/devices. None if the module is not loaded.
std::optional<unsigned> uvm_major(const std::string& node_root);

// The node with this path, in /dev of the node or, if it is not there, of the driver's root.
DeviceNode device_node(const DriverPlace& place, const std::string& path);

// The device nodes that all cards share (nvidiactl, nvidia-uvm, nvidia-uvm-tools), if they exist.
std::vector<DeviceNode> control_nodes(const DriverPlace& place);

// The libraries of the driver except those for graphics, nvidia-smi, the firmware and the file that
// registers OpenCL, read only. Each library is mounted under each of its names into both folders
// that a loader searches by default (Debian's and Red Hat's), so that neither ldconfig nor a hook
// has to run in the container. Empty if there is no driver.
// test/plugin/cards/driver/driver_layouts_test.cc has the differences to what NVIDIA's own tool
// lists.
std::vector<Mount> driver_files(const DriverPlace& place);

// Makes the link /dev/char/<major>:<minor> of each of these nodes on the node, unless it exists.
// Without it systemd takes a device away from running containers when it reloads its units, and
// runc 1.1.3 to 1.1.6 do not give it (NVIDIA/nvidia-container-toolkit#48). Nodes of a driver
// container are left out. Errors: a link cannot be made.
Result<void> link_in_dev_char(const DriverPlace& place, const std::vector<DeviceNode>& nodes);

// What a container with these edits lacks to run CUDA: "/dev/nvidia-uvm is missing". Empty if it
// has what it needs.
std::string missing_for_cuda(const DriverPlace& place, const Edits& shared);

// Why these edits have no usable libcuda: it is missing, or of another driver than the kernel
// module. Empty: it is usable. With hooks, a versioned file suffices, since a hook makes the link
// libcuda.so.1.
std::string libcuda_problem(const DriverPlace& place, const Edits& edits);

// The path for this process of this path of the node. Links are not followed.
std::string joined(const std::string& node_root, std::string_view path);
// The path for this process of a file or folder of the node. Links on the node are followed within
// its root.
std::optional<std::string> path_on_node(const std::string& node_root, const std::string& path);
// The path for this process of a regular file of the node.
std::optional<std::string> file_on_node(const std::string& node_root, const std::string& path);

}  // namespace mgpu::plugin
