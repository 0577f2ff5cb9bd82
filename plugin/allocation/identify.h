// Which container is it that kubelet starts? PreStartContainer tells only the device ids. Pure.
//
//   seen                                                    answer
//   one record, and PodResources has one container          that container
//   the checkpoint has entries of one pod                   those (an ordinary init container and
//   an
//                                                           app container may have equal devices;
//                                                           each has an allocation of its own)
//   PodResources silent, one record that was bound before   the container it was bound to
//   anything else                                           doubt: an error, and kubelet asks again
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
  AllocationId allocation;  // empty: its answer was not ours
};

struct Evidence {
  std::vector<Record> records;                         // with exactly these devices
  std::optional<std::vector<ListedContainer>> listed;  // none: no answer
  std::optional<std::vector<CheckpointedContainer>>
      checkpointed;  // none: not read, or not readable
};

struct Identity {
  AllocationId allocation;
  std::optional<PodRef> pod;  // where known
  PodUid uid;                 // empty where not known
  std::string container;
  bool operator==(const Identity&) const = default;
};

// One record and one listed container: the checkpoint is needed only where the pod has init
// containers that ask for cards, since PodResources does not list those.
bool identified_by_list(const Evidence& evidence);

// Errors: one sentence of doubt. Several identities are of one pod.
Result<std::vector<Identity>> identify(const Evidence& evidence);

}  // namespace mgpu::plugin
