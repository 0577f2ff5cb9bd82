// BestFit, as published with FGD (measures.h): the node that has least left afterwards.
//
//   node   integer part of 100 * (1 - ((C - c)/128 + (R - G)/8) / 2)
//   card   the one with the least free compute
//
// where C cores and R cards are free, and c cores and G cards are requested. The published policy
// then stretches the scores of one decision, whole numbers within 0..100, to the range 0..100. That
// keeps their order and makes no two equal, and is left out.
#include "bench/trace/policies/measures.h"
#include "bench/trace/policies/policies.h"

namespace mgpu::trace {
namespace {

Score score_node(const PlacementContext& context, const Node& node,
                 const std::vector<CardHold>& pod) {
  const double cpu =
      part_of_largest(node.resources_left().cpu.minus_saturating(context.resources.cpu));
  const double gpu = part_of_largest(free_core(node) - core_of(pod));
  return hundredths(1 - (cpu / 2 + gpu / 2));
}

}  // namespace

const Policy kBestFit{.name = "bestfit",
                      .score_card = tightest_card,
                      .score_node = score_node,
                      .ranks_pods_without_cards = true};

}  // namespace mgpu::trace
