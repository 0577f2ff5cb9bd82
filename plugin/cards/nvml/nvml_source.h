// Cards from NVIDIA's NVML, which is loaded at run time: nothing of NVIDIA is needed to build, and
// on a node without a driver the error says so.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugin/cards/card_source.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin {

struct NvmlOptions {
  // Tried in this order. A name without "/" is looked up by the loader. Empty: where drivers are
  // usually installed.
  std::vector<std::string> libraries;
  // Where this process sees the node's files: not "/" in a container.
  std::string node_root = "/";
  // The root of the file system with the driver, on the node. Its libraries are mounted into
  // containers from there. Empty: that of the NVML that was loaded.
  std::string driver_root;
  // Makes links in /dev/char, and loads nvidia-uvm if its device is missing (uvm_module.h), with
  // the program of this name unless it is empty.
  bool prepare_node = true;
  std::string modprobe = "nvidia-modprobe";
  // Reports each card as unhealthy while a container could not run CUDA on it.
  bool must_run_cuda = true;
  // The memory of each card that is not offered, in addition to what the driver reserves.
  MiB reserve{0};
  // The memory of each card that reports none, since it uses that of the processor (GB10). None:
  // such a card is offered as a whole only.
  std::optional<MiB> unified_memory{};
  // How long a read of all cards may take before a card counts as unhealthy.
  std::chrono::milliseconds timeout = kDriverTimeout;
  // XIDs caused by programs, which do not affect health (NVIDIA k8s-device-plugin
  // internal/rm/health.go).
  std::set<std::uint64_t> xids_ignored = {13, 31, 43, 45, 68, 109};
};

// The health of a card is "Healthy", "MIG", or the reason why it is not offered: "XID 79", the
// error of NVML, the recovery action that the driver requests, that it is for displays only, or
// what a container would lack to run CUDA ("libcuda.so.1 is missing"). It is offered again after
// kGoodProbes good probes in a row. A call that does not return makes its card unhealthy; the other
// cards keep their state.
//
// A library that does not exist yet is an error of read(), which looks for it again.
std::unique_ptr<CardSource> nvml_source(NvmlOptions options);

}  // namespace mgpu::plugin
