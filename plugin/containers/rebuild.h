// Records that were lost (a broken file, a state folder that was removed) are made again from
// kubelet's checkpoint, which keeps our answers to Allocate, and from the pods. Pure.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "common/contract/contract.h"
#include "common/kube/objects.h"
#include "plugin/allocation/record.h"
#include "plugin/kubelet/checkpoint.h"

namespace mgpu::plugin {

// Entries of allocations of ours for which there is no record.
std::vector<CheckpointEntry> lost_entries(const Checkpoint& checkpoint,
                                          const std::vector<Record>& records);

struct Rebuilt {
  Record record;
  std::string problem;  // one sentence where a started container's cards cannot be told
};

// The record of an entry. Bound where the pod shows that the container was started: then it has
// what its annotation names, whatever the state of the cards is now. None: there is no such pod.
std::optional<Rebuilt> rebuild(const CheckpointEntry& entry, const std::optional<kube::Pod>& pod,
                               const std::vector<CardFacts>& cards, const Contract& contract);

}  // namespace mgpu::plugin
