// Identifies the container that kubelet starts, since PreStartContainer has only the device ids.
// Pure.
//
//   evidence                                            result
//   the checkpoint has entries of one pod               the containers of these entries, with the
//                                                       name of the pod if PodResources lists one
//                                                       of them. An ordinary init container and an
//                                                       app container may have equal devices; each
//                                                       has its own allocation.
//   one record, and PodResources lists one container    that container; the uid is not known
//   PodResources lists none, one record that is bound   the container of the record
//   anything else                                       an error; kubelet retries
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "plugin/allocation/record.h"

namespace mgpu::plugin {

// A container that PodResources lists with these devices.
struct ListedContainer {
  PodRef pod;
  std::string container;
};

// An entry of kubelet's checkpoint with these devices.
struct CheckpointedContainer {
  PodUid uid;
  std::string container;
  AllocationId allocation;  // empty: the response in the checkpoint is not ours
};

struct Evidence {
  std::vector<Record> records;                         // with exactly these devices
  std::optional<std::vector<ListedContainer>> listed;  // none: PodResources is unavailable
  std::optional<std::vector<CheckpointedContainer>> checkpointed;  // none: not read
};

struct Identity {
  AllocationId allocation;
  std::optional<PodRef> pod;  // if known
  PodUid uid;                 // empty if not known
  std::string container;
  bool operator==(const Identity&) const = default;
};

// Errors: the container is not certain; one sentence. Several identities are of one pod.
Result<std::vector<Identity>> identify(const Evidence& evidence);

}  // namespace mgpu::plugin
