#include "extender/placement/policies/dotprod.h"

#include "extender/placement/published.h"

namespace mgpu::extender {

namespace {

Score score_node(const PlacementContext& context, const Node& node,
                 const std::vector<CardHold>& pod) {
  const double cpu = part_of_largest(node.resources_left().cpu) * part_of_largest(context.host.cpu);
  const double gpu = part_of_largest(free_core(node)) * part_of_largest(core_of(pod));
  return hundredths(1 - (cpu + gpu) / 2);
}

}  // namespace

const Policy kDotProd{.name = "dotprod",
                      .score_card = tightest_card,
                      .score_node = score_node,
                      .ranks_pods_without_cards = true};

}  // namespace mgpu::extender
