#include "extender/placement/policies/bestfit.h"

#include "extender/placement/published.h"

namespace mgpu::extender {

namespace {

Score score_node(const PlacementContext& context, const Node& node,
                 const std::vector<CardHold>& pod) {
  const double cpu = part_of_largest(node.resources_left().cpu.minus_saturating(context.host.cpu));
  const double gpu = part_of_largest(free_core(node) - core_of(pod));
  return hundredths(1 - (cpu / 2 + gpu / 2));
}

}  // namespace

const Policy kBestFit{.name = "bestfit",
                      .score_card = tightest_card,
                      .score_node = score_node,
                      .ranks_pods_without_cards = true};

}  // namespace mgpu::extender
