// Cards from NVIDIA's NVML, loaded at run time: nothing of NVIDIA is needed to build, and a node
// without a driver says so in one sentence.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "plugin/cards/card_source.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin {

struct NvmlOptions {
  // Tried in this order; a name without "/" is looked up by the loader.
  std::vector<std::string> libraries = {
      "libnvidia-ml.so.1", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
      "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
      "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
      "/home/kubernetes/bin/nvidia/lib64/libnvidia-ml.so.1"};
  // Where this process sees the node's files: another folder in a container.
  std::string node_root = "/";
  // Where on the node the driver is installed; its libraries are mounted into containers from
  // there.
  std::string driver_root = "/";
  // How long one look at all cards may take before a card is called sick.
  std::chrono::milliseconds patience = kDriverTimeout;
  // XIDs that programs cause: counted only (NVIDIA k8s-device-plugin internal/rm/health.go).
  std::set<std::uint64_t> xids_ignored = {13, 31, 43, 45, 68, 109};
};

// Health of a card is "Healthy", "MIG", or why it is not offered: "XID 79", what NVML says of it,
// or what its driver says has to be done. It is offered again after some good looks in a row, once
// the driver asks for nothing any more. A call that does not return makes its card sick; the others
// stay as they were.
//
// Never fails: a library that is not there yet is looked for again at each read().
std::unique_ptr<CardSource> nvml_source(NvmlOptions options);

}  // namespace mgpu::plugin
