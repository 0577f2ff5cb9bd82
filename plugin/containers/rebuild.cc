#include "plugin/containers/rebuild.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "plugin/allocation/decide.h"

namespace mgpu::plugin {

namespace {

bool was_started(const kube::Pod& pod, const std::string& container) {
  return std::ranges::any_of(pod.container_statuses, [&](const kube::ContainerStatus& status) {
    return status.name == container && !status.id.empty();
  });
}

}  // namespace

std::vector<CheckpointEntry> lost_entries(const Checkpoint& checkpoint,
                                          const std::vector<Record>& records) {
  std::vector<CheckpointEntry> lost;
  for (const CheckpointEntry& entry : checkpoint.entries) {
    const auto known = std::ranges::find(records, entry.allocation, &Record::id);
    if (valid(entry.allocation) && known == records.end()) lost.push_back(entry);
  }
  return lost;
}

std::optional<Rebuilt> rebuild(const CheckpointEntry& entry, const std::optional<kube::Pod>& pod,
                               std::vector<CardFacts> cards, const Contract& contract) {
  if (!pod || pod->finished()) return std::nullopt;
  Record record;
  record.id = entry.allocation;
  record.devices = entry.devices;
  if (!was_started(*pod, entry.container)) return Rebuilt{record, ""};
  const Identity identity = {entry.allocation, pod->ref(), entry.uid, entry.container};
  // The container runs on its cards already, and keeps them whatever their health is now.
  for (CardFacts& card : cards) card.health = kHealthy;
  const NodeState node = {NodeName(pod->node_name), std::move(cards), {}};
  const auto decided = decide(identity, record, *pod, node, contract);
  MGPU_DEBUG_CHECK(!decided || (decided->bound() && decided->devices == entry.devices),
                   "a container that runs keeps its devices");
  if (decided) return Rebuilt{*decided, ""};
  return Rebuilt{record, decided.error().message};
}

}  // namespace mgpu::plugin
