#include "test/support/fragmentation.h"

#include "extender/placement/card_model.h"
#include "extender/placement/fit.h"
#include "extender/placement/measures.h"

namespace mgpu::test {

using extender::Card;
using extender::Node;
using extender::PodClass;

double fragmentation(const Node& node, const PodClass& what) {
  std::int64_t all = 0;
  std::int64_t usable = 0;
  std::int32_t usable_cards = 0;
  for (const Card& card : extender::cards_of(node)) {
    const std::int64_t free = extender::free_core(card);
    all += free;
    if (free < what.per_card.core.value()) continue;
    if (!extender::accepts_model(what.models, what.models_excluded, card.model)) continue;
    usable += free;
    ++usable_cards;
  }
  const bool enough_cpu =
      node.allocatable.cpu.zero() || what.resources.cpu <= node.resources_left().cpu;
  const bool hosts = what.cards > 0 && usable_cards >= what.cards && enough_cpu;
  return static_cast<double>(hosts ? all - usable : all) * extender::kMilliPerPercent;
}

double expected_fragmentation(const Node& node, const extender::Workload& workload) {
  double sum = 0;
  for (const extender::WeightedClass& one : workload.classes)
    sum += one.probability * fragmentation(node, one.what);
  return sum;
}

}  // namespace mgpu::test
