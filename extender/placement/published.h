// What the policies that FGD was compared with share: how they count what is free, and which card
// they take. Sources: Weng et al., "Beware of Fragmentation", USENIX ATC 2023, and its simulator
// (hkust-adsl/kubernetes-scheduler-simulator, pkg/simulator/plugin). They know compute and CPU
// only: card memory and main memory decide what fits, never what is better.
//
// Free is what is neither used nor expected; a card that is not usable has nothing free. GPU
// amounts are percent of one card. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "extender/placement/cluster.h"
#include "extender/placement/context.h"
#include "extender/placement/holds.h"
#include "extender/placement/policy.h"

namespace mgpu::extender {

inline constexpr double kMilliPerPercent = 10;  // thousandths of a card

std::int64_t free_core(const Card& card);
std::int64_t free_core(const Node& node);

// What the pod takes of all its cards.
std::int64_t core_of(const std::vector<CardHold>& pod);

// Amounts as parts of the largest node that the authors had: 128 cores, 8 cards.
double part_of_largest(MilliCpu cpu);
double part_of_largest(std::int64_t core);

// The integer part of 100 * `part`, within -kScoreMax .. kScoreMax.
Score hundredths(double part);

// The card with the least that is free has the highest score; whole cards are all alike.
Score tightest_card(const PlacementContext& context, const Node& node, const Card& card,
                    const Share& taken, const Share& share);

}  // namespace mgpu::extender
