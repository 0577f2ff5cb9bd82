#include "plugin/containers/container_edits.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/text.h"
#include "plugin/hook/limit_protocol.h"

namespace mgpu::plugin {

namespace {

void add_hook(const LimitHook& hook, const std::string& first, const std::string& second,
              Edits& edits) {
  edits.hooks.push_back({.name = "createRuntime",
                         .path = hook.program,
                         .arguments = {hook.program, first, second},
                         .timeout_seconds = kLimitHookSeconds});
}

void add_mps(const ShareLimits& by, const Record& record, Edits& edits) {
  Edits limits = by.mps->edits(record);
  edits.environment.merge(limits.environment);
  edits.devices.insert(edits.devices.end(), limits.devices.begin(), limits.devices.end());
  for (Mount& mount : limits.mounts) {
    if (by.mps_hook != nullptr) {
      add_hook(*by.mps_hook, std::string(kMpsHookArgument), mount.host_path + "/control", edits);
    }
    mount.no_exec = true;  // it has sockets only
    edits.mounts.push_back(std::move(mount));
  }
}

// What the programs of a container cannot exceed. Whole cards are all that it can reach.
std::string enforced(const Record& record, const ShareLimits& by) {
  if (!has_share(record)) return "memory,compute";
  if (by.mps != nullptr && is_part_of_one_card(record)) return "memory,compute";
  if (by.library != nullptr && by.library->compute == TurnRule::kFixed) return "memory,compute";
  return by.library != nullptr || by.driver_hook != nullptr ? "memory" : "none";
}

}  // namespace

Result<Edits> edits_of(const Record& record, const Inventory& inventory,
                       const ShareLimits& limits) {
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
  edits.environment["MGPU_ENFORCED"] = enforced(record, limits);
  if (has_share(record) && limits.library != nullptr) {
    auto mounts = share_mounts(*limits.library, record, shared_edits(inventory.state().found));
    if (!mounts) return mounts.error();
    edits.mounts = *std::move(mounts);
  }
  if (has_share(record) && limits.driver_hook != nullptr) {
    if (!limits.driver_hook->problem.empty()) return error(limits.driver_hook->problem);
    add_hook(*limits.driver_hook, limits.driver_hook->socket, record.id.str(), edits);
  }
  if (limits.mps != nullptr) add_mps(limits, record, edits);
  MGPU_DEBUG_CHECK(edits.devices.size() >= record.cards.size(), "each card has a device node");
  return edits;
}

}  // namespace mgpu::plugin
