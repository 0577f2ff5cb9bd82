// Assigns the use of the cards to the containers that hold shares of them. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/contract/contract.h"
#include "common/kube/objects/pod_owner.h"
#include "plugin/allocation/record.h"
#include "plugin/monitor/cgroup.h"

namespace mgpu::plugin {

// A process on a card, and its container.
struct ProcessSample {
  CardUuid card;
  std::int64_t pid = 0;
  std::optional<MiB> memory;
  std::optional<double> sm_percent;
  std::optional<CgroupContainer> container;  // not set outside of pods
  bool without_mps = false;                  // see ProcessUse
  std::string program{};                     // its name, which it can choose itself
  bool client = false;                       // of mgpu's MPS
};

// Names of containers by the runtime's container id, from the status of the pods.
using ContainerNames = std::map<std::string, std::string>;

struct ContainerUse {
  Owner owner;
  CardGrant grant;
  MiB memory_used;  // by its processes on this card
  // Percent of the whole card; not set without a sample. The driver measures the time in which
  // a process computes. A client of MPS does so on the part of the card that it was given.
  std::optional<double> sm_percent;
  std::int32_t processes = 0;
  bool part_of_one_card = false;  // see is_part_of_one_card()
  std::int32_t without_mps = 0;   // processes
  // An init container that a later container of its pod has followed.
  bool followed = false;
  // For the counters: what it certainly used, 0 if its card is idle. Not set: not measured.
  std::optional<double> known_percent{};
  std::optional<kube::PodOwner> pod_owner{};  // not set: not known
  // What its processes have reserved by the library in it. Not set: it has no library.
  std::optional<MiB> reserved{};
  // What they have taken beyond that, of which the library knows nothing (UncountedWatch).
  MiB uncounted{};
};

struct Joined {
  std::vector<ContainerUse> containers;  // one for each bound record and card
  // Memory of processes that belong to no container with a grant on their card.
  std::map<CardUuid, MiB> unmanaged;
};

// A process belongs to the record of its pod and container. If the container's id is not in `names`
// (yet, or never, as for ephemeral containers), it belongs to the pod's record on that card,
// provided that there is only one without those of init containers that have been followed by
// another.
Joined join(const std::vector<Record>& records, const std::vector<ProcessSample>& processes,
            const ContainerNames& names);

}  // namespace mgpu::plugin
