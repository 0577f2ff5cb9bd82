// FGD, fragmentation gradient descent (Weng et al., "Beware of Fragmentation", USENIX ATC 2023; the
// simulator's fgd_score.go): where the fragmentation that the expected workload sees
// (fragmentation.h) grows least.
//
//   card   integer part of 100 * sigmoid((F before - F after) / 1000), F in thousandths of a card;
//          0 for a whole card: the first ones
//   node   the same
//
// The coarse steps are part of the policy: nodes that are as good go to the first, which keeps pods
// together. As long as no workload is known it is BestFit (bestfit.h).
#pragma once

#include "extender/placement/policy.h"

namespace mgpu::extender {

extern const Policy kFgd;

}  // namespace mgpu::extender
