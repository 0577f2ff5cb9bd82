#include "plugin/containers/container_edits.h"

#include <utility>

namespace mgpu::plugin {

Result<Edits> edits_of(const Record& record, const Inventory& inventory, const Mps* mps) {
  std::vector<DeviceNode> nodes;
  for (const CardGrant& card : record.cards) {
    for (auto& node : inventory.nodes_of(card.uuid)) nodes.push_back(std::move(node));
  }
  auto edits = container_edits(record, std::move(nodes));
  if (mps == nullptr) return edits;
  auto limits = mps->edits(record);
  if (!limits) return limits.error();
  edits.environment.merge(limits->environment);
  edits.devices.insert(edits.devices.end(), limits->devices.begin(), limits->devices.end());
  edits.mounts.insert(edits.mounts.end(), limits->mounts.begin(), limits->mounts.end());
  return edits;
}

}  // namespace mgpu::plugin
