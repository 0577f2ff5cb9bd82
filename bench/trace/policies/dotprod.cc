// DotProd, as published with FGD (measures.h): the node where the product of what is free and what
// is requested is smallest. (Tetris, Grandl et al., SIGCOMM 2014, takes the largest.)
//
//   node   integer part of 100 * (1 - (C/128 * c/128 + R/8 * G/8) / 2)
//   card   the one with the least free compute
//
// where C cores and R cards are free, and c cores and G cards are requested.
#include "bench/trace/policies/measures.h"
#include "bench/trace/policies/policies.h"

namespace mgpu::trace {
namespace {

Score score_node(const PlacementContext& context, const Node& node,
                 const std::vector<CardHold>& pod) {
  const double cpu =
      part_of_largest(node.resources_left().cpu) * part_of_largest(context.resources.cpu);
  const double gpu = part_of_largest(free_core(node)) * part_of_largest(core_of(pod));
  return hundredths(1 - (cpu + gpu) / 2);
}

}  // namespace

const Policy kDotProd{.name = "dotprod",
                      .score_card = tightest_card,
                      .score_node = score_node,
                      .ranks_pods_without_cards = true};

}  // namespace mgpu::trace
