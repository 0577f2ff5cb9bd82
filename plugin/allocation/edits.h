// What a container gets: device nodes, environment, mounts and hooks, in the terms of a CDI 0.5
// spec (cncf-tags/container-device-interface SPEC.md). Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/contract/contract.h"
#include "plugin/allocation/record.h"

namespace mgpu::plugin {

struct DeviceNode {
  std::string path;       // in the container
  std::string host_path;  // on the node
  bool operator==(const DeviceNode&) const = default;
};

struct Mount {
  std::string host_path;
  std::string container_path;
  bool read_only = true;
  // No program may run from it, and no library may be loaded.
  bool no_exec = false;
  bool operator==(const Mount&) const = default;
};

using Environment = std::map<std::string, std::string>;

// A program of the node that the container runtime runs for each container (hooks of the OCI
// runtime specification). If it fails, the container does not start.
struct Hook {
  std::string name;  // the hookName of a CDI spec: "createRuntime"
  std::string path;
  std::vector<std::string> arguments;      // the first is the name of the program
  std::vector<std::string> environment{};  // "NAME=value"
  int timeout_seconds = 0;                 // after which the runtime kills it; 0: never
  bool operator==(const Hook&) const = default;
};

struct Edits {
  std::vector<DeviceNode> devices;
  std::vector<Mount> mounts;
  Environment environment;
  std::vector<Hook> hooks{};
  bool operator==(const Edits&) const = default;
};

// What mgpu uses of ContainerAllocateResponse of kubelet's device plugin API.
struct AllocateResponse {
  Environment environment;
  std::vector<std::string> cdi_devices;  // qualified names
};

// The variables that Allocate sets. It is called with the devices, but without the pod.
//   MGPU_ALLOCATION, MGPU_DEVICES_HASH, MGPU_CORE_PERCENT (the container's total),
//   NVIDIA_VISIBLE_DEVICES=void, so that no other runtime adds cards
Environment environment_of(const Record& record);

// The variables that PreStart adds for a bound record:
//   MGPU_CARDS "0,2", MGPU_CARD_UUIDS "GPU-a,GPU-b", MGPU_MEMORY_MIB (the container's total)
Environment environment_of_cards(const Record& record);

// Both of these environments and `nodes`, the device nodes of the record's cards.
Edits container_edits(const Record& record, std::vector<DeviceNode> nodes);

// "<domain>/mgpu"
std::string cdi_kind(const Contract& contract);
// "<kind>=<allocation>", as kubelet passes it to the runtime.
std::string cdi_name(const Contract& contract, const AllocationId& id);

}  // namespace mgpu::plugin
