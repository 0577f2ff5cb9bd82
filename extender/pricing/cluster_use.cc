#include "extender/pricing/cluster_use.h"

#include <algorithm>

#include "common/base/check.h"
#include "extender/placement/measures.h"

namespace mgpu::extender {

namespace {

constexpr double kPercentPerCard = 100;
constexpr double kMilliPerCard = 1000;

std::optional<double> part(double some, double all) {
  if (all <= 0) return std::nullopt;
  // A sum of floating-point numbers may exceed the whole by its rounding.
  return std::clamp(some / all, 0.0, 1.0);
}

// An overfull card counts as full.
template <class Amount>
Amount within(Amount taken, Amount capacity) {
  return std::min(taken, capacity);
}

}  // namespace

void ClusterUse::add(const Node& node, const TargetWorkload* target) {
  if (node.cards.empty()) return;
  std::int64_t allocated = 0;
  std::int64_t free = 0;
  std::size_t in_use = 0;
  for (const Card& card : node.cards) {
    const Share taken = card.used + card.expected;
    allocated += within(taken.core, card.capacity.core).value();
    free += free_core(card);
    core += card.capacity.core.value();
    memory += card.capacity.memory.value();
    memory_allocated += within(taken.memory, card.capacity.memory).value();
    if (card.instance) core_free_mig += free_core(card);
    if (card.usable() && taken.zero() && !card.instance) ++cards_free;
    if (taken.zero()) continue;
    ++in_use;
    if (!card.instance) core_free_in_parts += free_core(card);
  }
  MGPU_CHECK(in_use <= node.cards.size() && allocated >= 0 && free >= 0, "parts of the node");
  ++nodes;
  if (allocated > 0 && free > 0) ++nodes_in_part;
  if (in_use > 0 && in_use < node.cards.size()) ++nodes_partly_used;
  cards += node.cards.size();
  core_allocated += allocated;
  core_free += free;
  MGPU_CHECK(core_allocated <= core && core_free <= core &&
                 core_free_in_parts + core_free_mig <= core_free && memory_allocated <= memory &&
                 cards_free <= cards,
             "the parts of the cluster are within the whole");
  if (target == nullptr || target->empty()) return;
  workload_known = true;
  fragmented += target->fragmentation(node) / kMilliPerCard;
}

std::optional<double> ClusterUse::gpu_allocation_ratio() const {
  return part(static_cast<double>(core_allocated), static_cast<double>(core));
}

std::optional<double> ClusterUse::memory_allocation_ratio() const {
  return part(static_cast<double>(memory_allocated), static_cast<double>(memory));
}

std::optional<double> ClusterUse::free_in_parts_ratio() const {
  return part(static_cast<double>(core_free_in_parts),
              static_cast<double>(core_free - core_free_mig));
}

std::optional<double> ClusterUse::gpu_node_fragmentation_ratio() const {
  return part(static_cast<double>(nodes_in_part), static_cast<double>(nodes));
}

std::optional<double> ClusterUse::fragmentation_amount() const {
  if (!workload_known) return std::nullopt;
  return part(kPercentPerCard * fragmented, static_cast<double>(core));
}

std::optional<double> ClusterUse::fragmentation_rate() const {
  if (!workload_known) return std::nullopt;
  return part(kPercentPerCard * fragmented, static_cast<double>(core_free));
}

}  // namespace mgpu::extender
