// How good a node is for a pod. Pure.
#pragma once

#include "extender/placement/cluster.h"
#include "extender/placement/context.h"
#include "extender/placement/place.h"
#include "extender/placement/policy.h"

namespace mgpu::extender {

struct Scored {
  bool fits = false;  // the other members are only meaningful where it is true
  bool beside_expected = true;
  Score score = 0;
  bool operator==(const Scored&) const = default;
};

Scored score_of(const Node& node, const PlacementContext& context, const PolicyChoice& policy,
                SearchBudget& budget);

// A node that fits beside the expected placements of other pods is better than one that does not,
// then the score decides. REQUIRES: both fit.
bool better(const Scored& a, const Scored& b);

}  // namespace mgpu::extender
