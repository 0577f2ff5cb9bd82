// How full a card or a node is: the measure that policies weigh. Pure.
#pragma once

#include <vector>

#include "extender/placement/cluster.h"
#include "extender/placement/holds.h"
#include "extender/placement/policy.h"

namespace mgpu::extender {

// The mean of the taken parts of compute and memory, 0 (empty) .. kScoreMax (full), rounded down.
// Over-full counts as full, and so does a dimension of which there is nothing.
Score fill(const Share& capacity, const Share& taken);

// The mean fill of the node's healthy cards once a pod that holds `pod` has come, expected shares
// counted as taken; 0 where there is no healthy card.
Score fill_after(const Node& node, const std::vector<CardHold>& pod);

}  // namespace mgpu::extender
