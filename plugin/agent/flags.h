// The command line of mgpu-device-plugin.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/options.h"
#include "common/base/result.h"
#include "common/program/program.h"
#include "common/program/service_flags.h"
#include "plugin/agent/agent.h"

namespace mgpu::plugin {

struct Flags : ProgramFlags {
  std::string node_name;
  ServiceFlags service{.metrics_bind_address = "127.0.0.1:9801"};
  std::string resource_domain{kDefaultResourceDomain};
  std::string cards_file;
  std::string nvml_library;
  std::string node_root = "/";
  std::string driver_root;
  bool check_driver = true;
  std::int64_t reserve_mib = -1;
  std::int64_t unified_memory_mib = 0;
  std::int64_t min_memory_mib = -1;
  std::string xid_ignore = "13,31,43,45,68,109";
  std::string device_plugin_dir = "/var/lib/kubelet/device-plugins";
  std::string pod_resources_socket = "/var/lib/kubelet/pod-resources/kubelet.sock";
  std::string runtime_socket = "/run/containerd/containerd.sock";
  std::string state_dir = "/var/lib/mgpu";
  std::string run_dir = "/run/mgpu";
  std::string cdi_dir = "/var/run/cdi";
  std::int64_t settle_ms = 20;
  std::string memory_resource = "node-status";
  std::string isolation = "none";
  std::string compute = "none";
  std::string profiles;
  std::string mps_control = "nvidia-cuda-mps-control";
  std::string hook_path;
  bool mps_service = false;
  bool mps_exclusive = false;
  bool mps_parts_without_limits = false;
  Duration mps_end_clients{10'000};
  bool taint = true;
  bool beside_nvidia = false;
  std::string enforce = "none";
  std::int64_t context_mib = 528;
};

// `flags` has the defaults, and outlives the use of `options`.
void add_flags(Options& options, Flags& flags);

// Those of mgpu-mps, which are a part of them.
void add_mps_service_flags(Options& options, Flags& flags);

// Errors: an invalid value, with the name of its flag.
Result<AgentOptions> options_of(const Flags& flags);
// Returns the cards file if one is given, else NVML. Errors: as above.
Result<std::unique_ptr<CardSource>> card_source_of(const Flags& flags);

// How to call the NVML of these flags.
NvmlCallOptions nvml_calls_of(const Flags& flags);

// Logs the flags that determine the behaviour.
void log_flags(const Flags& flags);

}  // namespace mgpu::plugin
