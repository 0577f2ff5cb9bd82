// Rebuilds lost records (a corrupt file, a removed state folder) from the pods and from kubelet's
// checkpoint, which has the responses to Allocate. Pure.
#pragma once

#include <optional>
#include <vector>

#include "common/contract/contract.h"
#include "common/kube/objects/objects.h"
#include "plugin/allocation/record.h"
#include "plugin/kubelet/checkpoint.h"

namespace mgpu::plugin {

// Returns the entries whose allocation was made by this plugin and has no record.
std::vector<CheckpointEntry> lost_entries(const Checkpoint& checkpoint,
                                          const std::vector<Record>& records);

struct Rebuilt {
  Record record;
  std::string problem;  // why the cards of a started container are unknown; else empty
};

// Returns the record of an entry, or nothing if the pod has ended. If the container was started,
// the record is bound to the cards of the pod's annotation, even if they are not healthy now.
std::optional<Rebuilt> rebuild(const CheckpointEntry& entry, const std::optional<kube::Pod>& pod,
                               std::vector<CardFacts> cards, const Contract& contract);

}  // namespace mgpu::plugin
