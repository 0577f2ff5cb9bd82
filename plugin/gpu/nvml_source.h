// Cards from NVIDIA's NVML, loaded at run time: nothing of NVIDIA is needed to build, and a node
// without a driver says so in one sentence.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "plugin/gpu/card_source.h"

namespace mgpu::gpu {

struct NvmlOptions {
  // Tried in this order; a name without "/" is looked up by the loader.
  std::vector<std::string> libraries = {
      "libnvidia-ml.so.1", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
      "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
      "/home/kubernetes/bin/nvidia/lib64/libnvidia-ml.so.1"};
  // XIDs that programs cause: counted only (NVIDIA k8s-device-plugin internal/rm/health.go).
  std::set<std::uint64_t> xids_ignored = {13, 31, 43, 45, 68, 109};
};

// Never fails: a library that is not there yet is looked for again at each read().
std::unique_ptr<CardSource> nvml_source(NvmlOptions options);

}  // namespace mgpu::gpu
