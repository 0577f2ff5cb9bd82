// The decision whether a pod fits a node, and on which cards. Deterministic: equal inputs give
// equal results; of equal cards the one with the lower index is taken. Nothing here changes the
// node; the ledger counts a placement when it is assumed (extender/ledger).
//
// A pod of several containers is a small packing problem. The search is exact within a bound of
// steps: where a placement exists and the bound is not reached, one is found.
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

// Steps that are left (limits.h), shared by all nodes of one filter or used by one call of place.
struct SearchBudget {
  std::uint32_t steps;

  // Takes that many steps. If fewer are left, takes them all and returns false.
  bool spend(std::uint64_t wanted) {
    const bool enough = wanted <= steps;
    steps = enough ? steps - static_cast<std::uint32_t>(wanted) : 0;
    return enough;
  }
};

// The steps of a decision that needs no search: each card is compared with the selector, and then
// with each container. Pods of one container take these and no more.
std::uint64_t linear_steps(const Node& node, const GpuRequest& request);

// Why the pod does not fit, empty if it fits; expected placements are ignored. Does not allocate
// for pods of one container, for which the answer does not depend on the budget.
std::optional<Reason> why_not(const Node& node, const GpuRequest& request, SearchBudget& budget);

// The same where `available` is the node in which what is reserved for nominated pods is used.
// kNominated for a pod that would fit if nothing were reserved for them.
std::optional<Reason> why_not(const Node& node, const Node& available, const GpuRequest& request,
                              SearchBudget& budget);

// A placement that leaves room for the expected placements of other pods is preferred;
// `beside_expected` is whether it does. Of such placements it is the best by `card_policy`, or by
// that of the node's profile if the pod chooses none.
struct Placed {
  Placement placement;
  bool beside_expected = true;
};
std::variant<Placed, Reason> place(const Node& node, const PlacementContext& context,
                                   const Policy& card_policy, SearchBudget& budget);

}  // namespace mgpu::extender
