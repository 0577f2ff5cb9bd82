// The ways in which shares can be enforced, and the options of that. Values.
#pragma once

#include <string>
#include <string_view>

#include "common/base/units.h"
#include "plugin/cards/mps/mps_daemon.h"
#include "plugin/cards/nvml/nvml_call.h"

namespace mgpu::plugin {

enum class IsolationMode { kAuto, kNone, kIntercept, kMps, kDriver };

// Returns the value of --isolation: "auto", "none", "intercept", "mps", "driver".
std::string_view to_string(IsolationMode mode);
// kNone for any other text.
IsolationMode isolation_mode(std::string_view name);

// What limits the compute of containers. kMps is that of IsolationMode::kMps, too.
enum class ComputeMode { kNone, kBurst, kFixed, kMps };

// Returns the value of --compute: "none", "burst", "fixed", "mps".
std::string_view to_string(ComputeMode mode);
// kNone for any other text.
ComputeMode compute_mode(std::string_view name);
// What limits compute if `memory` limits the memory and --compute is `wanted`; as if there were a
// limit of memory if `memory` is kAuto.
ComputeMode compute_with(IsolationMode memory, ComputeMode wanted);

struct IsolationOptions {
  IsolationMode mode = IsolationMode::kNone;
  MpsOptions mps;
  bool mps_exclusive = false;  // see ExclusiveCards; with MPS only
  // Containers with parts of several cards start though MPS enforces shares and cannot limit them.
  bool mps_parts_without_limits = false;
  NvmlCallOptions nvml;
  // mgpu-set-limits on the node. Empty: the program beside this one is copied to `hook_folder`,
  // which must permit to run programs.
  std::string hook_path;
  std::string hook_folder;
  std::string run_folder;   // of the socket of mgpu-set-limits, and of the pages of shares
  std::string proc_folder;  // the node's /proc
  // Has libmgpu-cuda.so and libmgpu-nvml.so, which are copied to `hook_folder`, and
  // mgpu-check-share. Empty: the folder of this program.
  std::string library_folder;
  MiB context{0};  // what a context of the driver takes of a card
  // The library of kIntercept has the rules of kBurst and kFixed, MPS is used besides the library
  // and the driver.
  ComputeMode compute = ComputeMode::kNone;
  bool self_test = false;  // cards on which the library does not hold its limit are not offered
};

}  // namespace mgpu::plugin
