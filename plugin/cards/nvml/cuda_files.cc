#include "plugin/cards/nvml/cuda_files.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "plugin/cards/driver/uvm_module.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin::nvml {
namespace {

constexpr char kNoNodesInWsl[] = "the Windows Subsystem for Linux has no device nodes of cards";

// What can be done about what is missing.
std::string advice_about(const std::string& missing, bool wsl) {
  const auto about = [&](std::string_view what) { return missing.find(what) != missing.npos; };
  if (wsl) return "mgpu cannot offer cards that have no device nodes of their own";
  if (about("/dev/nvidia")) return "nvidia-modprobe -u -c=0 on the node makes the device nodes";
  if (about("is of driver")) return "load the kernel module of that driver, or restart the node";
  return "--driver-root says where libcuda.so.1 is";
}

}  // namespace

// Outside containers CUDA starts nvidia-modprobe itself, so that the node may have no
// /dev/nvidia-uvm before a program has used CUDA on it. A driver container loads the module when it
// starts.
void CudaFiles::load_uvm_if_missing(const DriverPlace& at, bool wsl) {
  if (!options_.prepare_node || options_.modprobe.empty() || at.driver_root != "/") return;
  if (wsl) return;  // which has no such module
  const auto now = std::chrono::steady_clock::now();
  if (has_uvm(at) || (uvm_tried_at_ && now - *uvm_tried_at_ < kLoadUvmPeriod)) return;
  uvm_tried_at_ = now;
  const auto loaded = load_uvm(at, options_.modprobe);
  if (loaded) return log_info("nvidia-uvm is loaded", {{"node_root", at.node_root}});
  log_warn("nvidia-uvm cannot be loaded",
           {{"problem", loaded.error().message},
            {"advice",
             "run nvidia-modprobe -u -c=0 on the node whenever it has started, for example from a "
             "systemd unit"}});
}

// A spec that was written before a kernel module was loaded lacks its device nodes.
std::optional<Edits> CudaFiles::read_toolkit_spec(const DriverPlace& at, const Edits& own) {
  if (!options_.driver_root.empty()) return std::nullopt;
  std::optional<Edits> edits = toolkit_specs_.find(at);
  if (!edits) return std::nullopt;
  for (const DeviceNode& node : own.devices) {
    const auto listed = std::ranges::find(edits->devices, node.path, &DeviceNode::path);
    if (listed == edits->devices.end()) edits->devices.push_back(node);
  }
  return edits;
}

// Files may appear later. Where they disappear, as in an upgrade of packages, containers get the
// last ones for some reads.
void CudaFiles::read(const DriverPlace& at, bool wsl) {
  load_uvm_if_missing(at, wsl);
  const Edits now{.devices = control_nodes(at), .mounts = driver_files(at), .environment = {}};
  const std::optional<Edits> toolkit = read_toolkit_spec(at, now);
  const std::string missing = wsl ? kNoNodesInWsl : missing_for_cuda(at, toolkit ? *toolkit : now);
  if (!missing.empty() && missing_.empty() && was_complete_ && ++missing_reads_ < kMissingReads) {
    return;
  }
  missing_reads_ = 0;
  was_complete_ = missing.empty();
  shared_ = now;
  toolkit_ = toolkit;
  const std::string before = std::exchange(missing_, options_.must_run_cuda ? missing : "");
  if (missing_ == before) return;
  if (missing_.empty()) return log_info("containers can run CUDA again", {});
  log_warn("containers cannot run CUDA, and no card is offered",
           {{"problem", missing_},
            {"driver_root", at.driver_root},
            {"node_root", at.node_root},
            {"advice", advice_about(missing_, wsl)}});
}

void CudaFiles::link_devices(const DriverPlace& at, const FoundCards& found) {
  std::vector<DeviceNode> nodes = found.shared.devices;
  for (const FoundCard& card : found.cards) {
    nodes.insert(nodes.end(), card.nodes.begin(), card.nodes.end());
  }
  const auto linked = link_in_dev_char(at, nodes);
  const std::string problem = linked ? "" : linked.error().message;
  if (problem == link_problem_) return;
  link_problem_ = problem;
  if (!problem.empty()) log_warn("devices have no links in /dev/char", {{"problem", problem}});
}

}  // namespace mgpu::plugin::nvml
