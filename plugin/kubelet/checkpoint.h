// kubelet_internal_checkpoint (kubernetes pkg/kubelet/cm/devicemanager/checkpoint/checkpoint.go),
// in kubelet's device-plugin folder: the devices of each container, including init containers, with
// the UID of its pod and the plugin's response to Allocate. An internal format of kubelet, the same
// from 1.20 to 1.37:
//
//   {"Data": {"PodDeviceEntries": [{"PodUID", "ContainerName", "ResourceName",
//             "DeviceIDs": {numa: [id*]} | [id*], "AllocResp": base64 ContainerAllocateResponse}],
//             "RegisteredDevices": {...}}, "Checksum": n}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "plugin/allocation/record.h"
#include "plugin/kubelet/limits.h"

namespace mgpu::plugin {

struct CheckpointEntry {
  PodUid uid;
  std::string container;
  DeviceSet devices;
  // From MGPU_ALLOCATION in the response to Allocate. Empty if the response has none.
  AllocationId allocation;
};

// The entries of one resource. Entries that cannot be read are skipped.
struct Checkpoint {
  std::vector<CheckpointEntry> entries;
};
// Errors: the text is not JSON, or has no list of entries.
Result<Checkpoint> parse_checkpoint(std::string_view json, const std::string& resource);

// `folder` is the folder of kubelet.sock. Errors: the file cannot be read, is larger than
// kCheckpointBytesMax, or cannot be parsed.
Result<Checkpoint> read_checkpoint(const std::string& folder, const std::string& resource);

}  // namespace mgpu::plugin
