// kubelet_internal_checkpoint (kubernetes pkg/kubelet/cm/devicemanager/checkpoint/checkpoint.go),
// in kubelet's device-plugin folder: which container has which devices, with pod UIDs, init
// containers and our own answers to Allocate. An internal format, stable from 1.20 to 1.36:
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
  AllocationId allocation;  // of our answer (env MGPU_ALLOCATION); empty: not ours
};

// The entries of `resource`. Entries that cannot be read are left out and counted; the whole is an
// error where the text is not JSON or has no list of entries.
struct Checkpoint {
  std::vector<CheckpointEntry> entries;
  std::size_t unreadable = 0;
};
Result<Checkpoint> parse_checkpoint(std::string_view json, const std::string& resource);

// `folder`: that of kubelet.sock. Errors: cannot be read, over kCheckpointBytesMax.
Result<Checkpoint> read_checkpoint(const std::string& folder, const std::string& resource);

}  // namespace mgpu::plugin
