// What policies measure of nodes and cards. A share that is expected counts as taken, and a card
// that is not usable has nothing free. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "extender/placement/cluster.h"
#include "extender/placement/holds.h"
#include "extender/placement/policy.h"

namespace mgpu::extender {

// The mean of the taken fractions of compute and memory, 0 (empty) .. kScoreMax (full), rounded
// down. An over-full dimension counts as full, and so does one of which there is nothing.
Score fill(const Share& capacity, const Share& taken);

// The mean fill of the node's offered cards after a pod that holds `pod` is placed; 0 if there is
// no such card.
Score fill_after(const Node& node, const std::vector<CardHold>& pod);

inline constexpr double kMilliPerPercent = 10;  // thousandths of a card

// The free compute, in percent.
std::int64_t free_core(const Card& card);

}  // namespace mgpu::extender
