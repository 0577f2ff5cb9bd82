#include "plugin/agent/report.h"

#include <string>

#include "plugin/allocation/offer.h"

namespace mgpu::plugin {

namespace {

std::string cards(std::int64_t count) {
  return std::to_string(count) + (count == 1 ? " card" : " cards");
}

void say(NodeReport& report, NodeReport::Ready ready, const char* reason, std::string message) {
  report.ready = ready;
  report.reason = reason;
  report.message = std::move(message);
}

}  // namespace

NodeReport report_of(const InventoryState& inventory, bool registered, bool memory_by_kubelet) {
  NodeReport report;
  report.cards = inventory.cards;
  if (!memory_by_kubelet) report.memory = healthy_memory(inventory.cards);
  const std::int64_t all = std::ssize(inventory.cards);
  const std::int64_t healthy = healthy_cards(inventory.cards);
  if (!inventory.read) {
    say(report, NodeReport::Ready::kFalse, "NoDriver", inventory.problem);
  } else if (!inventory.problem.empty()) {
    say(report, NodeReport::Ready::kUnknown, "CardsUnreadable", inventory.problem);
  } else if (all == 0) {
    say(report, NodeReport::Ready::kFalse, "NoCards", "this node has no cards");
  } else if (!registered) {
    say(report, NodeReport::Ready::kFalse, "KubeletAbsent",
        "kubelet has not registered the device plugin");
  } else if (healthy == 0) {
    say(report, NodeReport::Ready::kFalse, "NoHealthyCards",
        "none of " + cards(all) + " is healthy");
  } else {
    const char* reason = healthy == all ? "CardsReady" : "SomeCardsUnhealthy";
    say(report, NodeReport::Ready::kTrue, reason,
        std::to_string(healthy) + " of " + cards(all) + (healthy == 1 ? " is" : " are") +
            " healthy");
  }
  return report;
}

}  // namespace mgpu::plugin
