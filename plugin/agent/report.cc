#include "plugin/agent/report.h"

#include <algorithm>
#include <string>

#include "plugin/allocation/offer.h"

namespace mgpu::plugin {

namespace {

std::string cards(std::int64_t count) {
  return std::to_string(count) + (count == 1 ? " card" : " cards");
}

}  // namespace

NodeReport report_of(const InventoryState& inventory, const Share& held, bool registered,
                     bool memory_by_kubelet, bool taint, std::optional<NodeUse> use) {
  using Ready = NodeReport::Ready;
  NodeReport report;
  report.cards = inventory.cards;
  report.links = inventory.links;
  report.taint = taint;
  report.use = use;
  // Unhealthy cards are not free, whoever holds them.
  if (use) report.use->core = std::max(Percent(0), use->core - held.core);
  if (!memory_by_kubelet) report.memory = offered(inventory.cards, held).memory.value();
  const auto with = [&report](Ready ready, const char* reason, std::string message) {
    report.ready = ready;
    report.reason = reason;
    report.message = std::move(message);
    return report;
  };
  const std::int64_t all = std::ssize(inventory.cards);
  const std::int64_t healthy = healthy_cards(inventory.cards);
  if (!inventory.read) return with(Ready::kFalse, "NoDriver", inventory.problem);
  if (!inventory.problem.empty()) {
    return with(Ready::kUnknown, "CardsUnreadable", inventory.problem);
  }
  if (all == 0) return with(Ready::kFalse, "NoCards", "this node has no cards");
  if (!registered) {
    return with(Ready::kFalse, "KubeletAbsent", "kubelet has not registered the device plugin");
  }
  if (healthy == 0) {
    return with(
        Ready::kFalse, "NoHealthyCards",
        "none of " + cards(all) + " is healthy; the first one: " + inventory.cards.front().health);
  }
  return with(
      Ready::kTrue, healthy == all ? "CardsReady" : "SomeCardsUnhealthy",
      std::to_string(healthy) + " of " + cards(all) + (healthy == 1 ? " is" : " are") + " healthy");
}

}  // namespace mgpu::plugin
