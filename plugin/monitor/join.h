// Use joined with grants: which container uses what of which card. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/contract/contract.h"
#include "plugin/allocation/record.h"
#include "plugin/monitor/cgroup.h"

namespace mgpu::plugin {

// A process on a card, and where it belongs.
struct ProcessSample {
  CardUuid card;
  std::int64_t pid = 0;
  std::optional<MiB> memory;
  std::optional<double> sm_percent;
  std::optional<CgroupContainer> container;  // none: not a pod's
};

// A container id of the runtime -> name in the pod, from pod statuses.
using ContainerNames = std::map<std::string, std::string>;

struct ContainerUse {
  Owner owner;
  CardGrant grant;
  MiB memory_used;                   // sum over its processes on this card
  std::optional<double> sm_percent;  // of the whole card, at most 100; none: no sample
  std::int32_t processes = 0;
};

struct Joined {
  std::vector<ContainerUse> containers;  // one per bound record and card, used or not
  // Memory of processes on cards of ours that belong to no container with a grant on that card.
  std::map<CardUuid, MiB> unmanaged;
  std::vector<ProcessSample> strangers;  // those processes
};

// A process belongs to the record of its pod and container; where the container's id is not in
// `names` yet, to the pod's only record on that card, if it has only one.
Joined join(const std::vector<Record>& records, const std::vector<ProcessSample>& processes,
            const ContainerNames& names);

}  // namespace mgpu::plugin
