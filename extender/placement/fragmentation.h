// How much of what is free on a node the pods to come cannot use: the measure of FGD (Weng et al.,
// "Beware of Fragmentation", USENIX ATC 2023; the simulator's pkg/utils/frag.go). All amounts are
// thousandths of a card (milli-GPU). For a class m of pods, with r_g free on card g and R on all
// cards of the node n:
//
//   F_n(m) = R                            where m asks for no cards, or n cannot host one m
//            sum of r_g too small for m   otherwise; a card of a model that m refuses is too small
//   F_n(M) = sum of p_m * F_n(m)
//
// A node can host one m when it has the CPU for it and enough cards that are large enough. As in
// FGD, neither main memory nor card memory is looked at, and a whole card counts as 1000. Where it
// is not known how much CPU the node has, it is enough. Free is what is neither used nor expected,
// on usable cards. Pure.
#pragma once

#include <cstdint>

#include "extender/placement/cluster.h"
#include "extender/pricing/workload.h"

namespace mgpu::extender {

// What is free of the node's CPU, in thousandths of a core; the largest number where it is not
// known.
std::int64_t free_milli_cpu(const Node& node);

// F_n(m), 0 .. 1000 * cards.
double fragmentation(const Node& node, const PodClass& what);

// F_n(M), 0 .. 1000 * cards; 0 where the workload is empty. By definition, at classes * cards
// steps: for many nodes or often, take a TargetWorkload (target_workload.h).
double expected_fragmentation(const Node& node, const Workload& workload);

}  // namespace mgpu::extender
