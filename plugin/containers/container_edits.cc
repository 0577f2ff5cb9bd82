#include "plugin/containers/container_edits.h"

#include <utility>

#include "common/base/text.h"
#include "plugin/containers/limit_setter.h"
#include "plugin/hook/limit_protocol.h"

namespace mgpu::plugin {

Result<Edits> edits_of(const Record& record, const Inventory& inventory, const Mps* mps,
                       const LimitHook* hook) {
  std::vector<DeviceNode> nodes;
  for (const CardGrant& card : record.cards) {
    auto of_card = inventory.nodes_of(card.uuid);
    if (!of_card) return error("card " + in_quotes(card.uuid.str()) + " is not found any more");
    // The container would start without its card.
    if (of_card->empty()) {
      return error("card " + in_quotes(card.uuid.str()) +
                   " has no device node, and a container needs at least one; its source must list "
                   "one");
    }
    nodes.insert(nodes.end(), of_card->begin(), of_card->end());
  }
  auto edits = container_edits(record, std::move(nodes));
  const auto add_hook = [&](const std::string& first, const std::string& second) {
    edits.hooks.push_back({.name = "createRuntime",
                           .path = hook->program,
                           .arguments = {hook->program, first, second},
                           .environment = {},
                           .timeout_seconds = kLimitHookSeconds});
  };
  if (mps == nullptr) {
    if (hook == nullptr || limits_of(record).empty()) return edits;
    if (!hook->problem.empty()) return error(hook->problem);
    add_hook(hook->socket, record.id.str());
    return edits;
  }
  Edits limits = mps->edits(record);
  edits.environment.merge(limits.environment);
  edits.devices.insert(edits.devices.end(), limits.devices.begin(), limits.devices.end());
  for (Mount& mount : limits.mounts) {
    if (hook != nullptr) add_hook(std::string(kMpsHookArgument), mount.host_path + "/control");
    mount.no_exec = true;  // it has sockets only
    edits.mounts.push_back(std::move(mount));
  }
  return edits;
}

}  // namespace mgpu::plugin
