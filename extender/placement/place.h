// The decision: does a pod fit a node, and on which cards. Deterministic: equal inputs give equal
// answers; ties go to the lower index. Nothing here changes the node: who commits assumes
// (extender/ledger).
//
// A pod of several containers is a small packing problem. It is searched exactly within a bound of
// steps: when a placement exists and the bound is not reached, one is found.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "common/contract/gpu_request.h"
#include "extender/placement/cluster.h"
#include "extender/placement/context.h"
#include "extender/placement/policy.h"
#include "extender/placement/reason.h"

namespace mgpu::extender {

// Steps left to spend; shared by all nodes of one filter, and by one call of place.
struct SearchBudget {
  std::uint32_t steps;
};

// Empty: it fits. Expected shares do not count. Does not allocate for pods of one container.
std::optional<Reason> why_not(const Node& node, const GpuRequest& request, SearchBudget& budget);

// Prefers a placement that leaves room for the pods on their way; `beside_expected` tells whether
// it does. Within that, the best cards by `policy`.
struct Placed {
  Placement placement;
  bool beside_expected = true;
};
std::variant<Placed, Reason> place(const Node& node, const PlacementContext& context,
                                   const Policy& card_policy, SearchBudget& budget);

}  // namespace mgpu::extender
