// What the published policies measure of nodes and cards.
//
// Sources: Weng et al., "Beware of Fragmentation", USENIX ATC 2023, and its simulator
// (hkust-adsl/kubernetes-scheduler-simulator, pkg/simulator/plugin). These policies compare compute
// and CPU only: card memory and main memory decide whether a pod fits, but not which node is
// better. GPU amounts are percent of one card. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "extender/placement/cluster.h"
#include "extender/placement/context.h"
#include "extender/placement/holds.h"
#include "extender/placement/measures.h"
#include "extender/placement/policy.h"

namespace mgpu::trace {

using extender::Card;
using extender::CardHold;
using extender::free_core;
using extender::Node;
using extender::PlacementContext;
using extender::Score;

std::int64_t free_core(const Node& node);

// The compute that the pod takes of all its cards.
std::int64_t core_of(const std::vector<CardHold>& pod);

// Amounts as fractions of the largest node in the authors' cluster: 128 cores, 8 cards.
double part_of_largest(extender::MilliCpu cpu);
double part_of_largest(std::int64_t core);

// The integer part of 100 * `part`, within -kScoreMax .. kScoreMax.
Score hundredths(double part);

// The card with the least free compute has the highest score; whole cards have equal scores.
Score tightest_card(const PlacementContext& context, const Node& node, const Card& card,
                    const Share& taken, const Share& share);

}  // namespace mgpu::trace
