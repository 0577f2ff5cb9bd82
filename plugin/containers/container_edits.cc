#include "plugin/containers/container_edits.h"

#include <utility>

#include "common/base/text.h"

namespace mgpu::plugin {

Result<Edits> edits_of(const Record& record, const Inventory& inventory, const Mps* mps) {
  std::vector<DeviceNode> nodes;
  for (const CardGrant& card : record.cards) {
    auto of_card = inventory.nodes_of(card.uuid);
    if (!of_card) return error("card " + in_quotes(card.uuid.str()) + " is not found any more");
    nodes.insert(nodes.end(), of_card->begin(), of_card->end());
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
