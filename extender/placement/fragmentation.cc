#include "extender/placement/fragmentation.h"

#include <limits>

#include "extender/placement/fit.h"
#include "extender/placement/model_name.h"
#include "extender/placement/published.h"

namespace mgpu::extender {

std::int64_t free_milli_cpu(const Node& node) {
  if (node.allocatable.cpu.zero()) return std::numeric_limits<std::int64_t>::max();
  return node.resources_left().cpu.value();
}

double fragmentation(const Node& node, const PodClass& what) {
  std::int64_t all = 0;
  std::int64_t of_use = 0;
  std::int32_t cards_of_use = 0;
  for (const Card& card : cards_of(node)) {
    const std::int64_t free = free_core(card);
    all += free;
    if (free < what.per_card.core.value()) continue;
    if (!accepts_model(what.models, what.models_excluded, card.model)) continue;
    of_use += free;
    ++cards_of_use;
  }
  const bool hosts =
      what.cards > 0 && cards_of_use >= what.cards && what.host.cpu.value() <= free_milli_cpu(node);
  return static_cast<double>(hosts ? all - of_use : all) * kMilliPerPercent;
}

double expected_fragmentation(const Node& node, const Workload& workload) {
  double sum = 0;
  for (const WeightedClass& one : workload.classes) {
    sum += one.probability * fragmentation(node, one.what);
  }
  return sum;
}

}  // namespace mgpu::extender
