#include "plugin/node/node_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/base/check.h"
#include "common/base/text.h"
#include "common/contract/cpu_taint.h"
#include "common/contract/limits.h"
#include "common/contract/quantity.h"
#include "common/kube/limits.h"
#include "plugin/node/limits.h"

namespace mgpu::plugin {
namespace {

// By the numbers of NodeReport::Ready.
constexpr std::array<const char*, 3> kReady{"True", "False", "Unknown"};
static_assert(static_cast<std::size_t>(NodeReport::Ready::kUnknown) + 1 == kReady.size());

void compare_cards(const NodeReport& report, const kube::Node& node, const Contract& contract,
                   NodeDifference& difference) {
  std::string cards = format_node_cards(report.cards, report.profile, report.links);
  const auto found = node.metadata.annotations.find(contract.node_cards);
  if (found != node.metadata.annotations.end() && found->second == cards) return;
  if (cards.size() > kCardsAnnotationBytesMax) {
    difference.problem = fmt::format(
        "annotation {} is not written: {} cards need {} bytes, the limit is {}",
        contract.node_cards, report.cards.size(), cards.size(), kCardsAnnotationBytesMax);
    return;
  }
  difference.cards = std::move(cards);
}

// Times are not compared, since a newer heartbeat alone does not justify a write. One write has one
// condition.
void compare_condition(kube::Condition wanted, const kube::Node& node, const std::string& now,
                       NodeDifference& difference) {
  if (difference.status.condition) return;
  wanted.message = cut_text(wanted.message, kube::kEventMessageMax);
  const auto found = std::ranges::find(node.conditions, wanted.type, &kube::Condition::type);
  if (found != node.conditions.end() && *found == wanted) return;
  difference.status.condition = wanted;
  difference.status.heartbeat_time = now;
  if (found == node.conditions.end() || found->status != wanted.status) {
    difference.status.transition_time = now;
  }
}

void compare_capacity(const NodeReport& report, const kube::Node& node, const Contract& contract,
                      NodeDifference& difference) {
  if (!report.memory) return;
  const auto found = node.capacity.find(contract.memory_resource);
  if (found != node.capacity.end()) {
    const auto amount = parse_whole_quantity("capacity", found->second);
    if (amount && *amount == *report.memory) return;
  }
  difference.status.capacity[contract.memory_resource] = *report.memory;
}

// Without healthy cards or a readable amount of CPU, the cards need none.
bool cards_of_node_need_cpu(const NodeReport& report, const kube::Node& node) {
  MGPU_DEBUG_CHECK(report.use.has_value(), "the taint depends on what pods request");
  const auto cpu = node.allocatable.find("cpu");
  if (cpu == node.allocatable.end()) return false;
  const auto allocatable = parse_scaled_quantity("cpu", cpu->second, 3);
  if (!allocatable) return false;
  const Percent all(100 * std::ranges::count_if(report.cards, &CardFacts::healthy));
  if (all <= report.use->core) return false;
  return cards_need_cpu(std::max<std::int64_t>(0, *allocatable - report.use->milli_cpu),
                        all - report.use->core);
}

// Taints of others stay as they are.
void compare_taint(const NodeReport& report, const kube::Node& node, const Contract& contract,
                   NodeDifference& difference) {
  const kube::Taint wanted{contract.needs_cpu, "", "PreferNoSchedule", ""};
  const auto is_ours = [&](const kube::Taint& taint) {
    return taint.key == wanted.key && taint.effect == wanted.effect;
  };
  const bool has = std::ranges::any_of(node.taints, is_ours);
  if (report.taint && !report.use) return;
  if (has == (report.taint && cards_of_node_need_cpu(report, node))) return;
  difference.taints = node.taints;
  if (has) {
    std::erase_if(*difference.taints, is_ours);
  } else {
    difference.taints->push_back(wanted);
  }
  MGPU_DEBUG_CHECK(std::ranges::any_of(*difference.taints, is_ours) != has,
                   "the change of the taints adds or removes that of mgpu");
}

}  // namespace

NodeDifference difference(const NodeReport& report, const kube::Node& node,
                          const Contract& contract, const std::string& now) {
  NodeDifference difference;
  compare_cards(report, node, contract, difference);
  compare_condition({std::string(kConditionType), kReady.at(static_cast<std::size_t>(report.ready)),
                     report.reason, report.message},
                    node, now, difference);
  if (report.exclusive) compare_condition(*report.exclusive, node, now, difference);
  compare_capacity(report, node, contract, difference);
  compare_taint(report, node, contract, difference);
  return difference;
}

}  // namespace mgpu::plugin
