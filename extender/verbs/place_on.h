// Where a pod goes on the node that was chosen for it.
#pragma once

#include <optional>
#include <string_view>

#include "common/contract/gpu_request.h"
#include "extender/ledger/ledger.h"
#include "extender/placement/context.h"
#include "extender/placement/policy.h"

namespace mgpu::extender {

// Empty where it does not fit. REQUIRES: a node that `view` knows.
std::optional<Placement> place_on(const View& view, std::string_view node,
                                  const PlacementContext& context, const Policy& card_policy);

}  // namespace mgpu::extender
