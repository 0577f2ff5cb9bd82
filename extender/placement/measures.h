// What policies measure of nodes and cards. A share that is expected counts as taken, and a card
// that is not usable has nothing free. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "extender/placement/cluster.h"
#include "extender/placement/context.h"
#include "extender/placement/holds.h"
#include "extender/placement/policy.h"

namespace mgpu::extender {

// The mean of the taken fractions of compute and memory, 0 (empty) .. kScoreMax (full), rounded
// down. An over-full dimension counts as full, and so does one of which there is nothing.
Score fill(const Share& capacity, const Share& taken);

// The mean fill of the node's offered cards after a pod that holds `pod` is placed; 0 where there
// is no such card.
Score fill_after(const Node& node, const std::vector<CardHold>& pod);

// --- the policies that FGD was compared with -----------------------------------------------------
//
// Sources: Weng et al., "Beware of Fragmentation", USENIX ATC 2023, and its simulator
// (hkust-adsl/kubernetes-scheduler-simulator, pkg/simulator/plugin). These policies compare compute
// and CPU only: card memory and main memory decide whether a pod fits, but not which node is
// better. GPU amounts are percent of one card.

inline constexpr double kMilliPerPercent = 10;  // thousandths of a card

std::int64_t free_core(const Card& card);
std::int64_t free_core(const Node& node);

// The compute that the pod takes of all its cards.
std::int64_t core_of(const std::vector<CardHold>& pod);

// Amounts as fractions of the largest node in the authors' cluster: 128 cores, 8 cards.
double part_of_largest(MilliCpu cpu);
double part_of_largest(std::int64_t core);

// The integer part of 100 * `part`, within -kScoreMax .. kScoreMax.
Score hundredths(double part);

// The card with the least free compute has the highest score; whole cards have equal scores.
Score tightest_card(const PlacementContext& context, const Node& node, const Card& card,
                    const Share& taken, const Share& share);

}  // namespace mgpu::extender
