// The shape of a node is all that decisions read of it: the cards in their order, without their
// indices and UUIDs, their links, what the node has and uses, and its profile, without its name. In
// a cluster many nodes are equal in that, most of all those that are empty, and one decision is
// that of all. Pure.
#pragma once

#include <cstdint>

#include "extender/placement/cluster.h"

namespace mgpu::extender {

// Whether a decision about `a` is that about `b`, with placements on the cards of the same
// positions. Not for requests that name cards by UUID, and not by policies for which
// Policy::per_pod is true.
bool same_shape(const Node& a, const Node& b);
// Equal for nodes of the same shape. O(cards).
std::uint64_t shape_hash(const Node& node);

}  // namespace mgpu::extender
