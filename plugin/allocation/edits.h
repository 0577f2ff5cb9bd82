// What a container gets: device nodes, environment and mounts, as a CDI 0.5 spec
// (cncf-tags/container-device-interface SPEC.md) is made of. Pure values.
#pragma once

#include <map>
#include <span>
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
  bool operator==(const Mount&) const = default;
};

using Environment = std::map<std::string, std::string>;

struct Edits {
  std::vector<DeviceNode> devices;
  std::vector<Mount> mounts;
  Environment environment;
  bool operator==(const Edits&) const = default;
};

// ContainerAllocateResponse of kubelet's device plugin API.
struct AllocateResponse {
  Edits edits;
  std::vector<std::string> cdi_devices;  // qualified names
};

// What Allocate can say of a container: it knows the devices, and not yet the pod.
//   MGPU_ALLOCATION, MGPU_DEVICES_HASH, MGPU_CORE_PERCENT (the container's total),
//   NVIDIA_VISIBLE_DEVICES=void, so that no other runtime adds cards of its own
Environment environment_of(const Record& record);

// What PreStart adds, of a bound record:
//   MGPU_CARDS "0,2", MGPU_CARD_UUIDS "GPU-a,GPU-b", MGPU_MEMORY_MIB (the container's total)
Environment environment_of_cards(const Record& record);

// Everything of environment_of and environment_of_cards together with the nodes of its cards.
// `nodes` are those of the record's cards, in their order.
Edits container_edits(const Record& record, std::vector<DeviceNode> nodes);

struct CdiDevice {
  std::string name;
  Edits edits;
  bool operator==(const CdiDevice&) const = default;
};

struct CdiSpec {
  std::string kind;  // "vke.volcengine.com/mgpu"
  Edits shared;      // for every container with a device of this spec
  std::vector<CdiDevice> devices;
};

// "<domain>/mgpu"
std::string cdi_kind(const Contract& contract);
// "<kind>=<allocation>", as kubelet passes it to the runtime.
std::string cdi_name(const Contract& contract, const AllocationId& id);

}  // namespace mgpu::plugin
