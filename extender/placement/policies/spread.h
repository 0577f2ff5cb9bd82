// Spread: keep pods apart, so that each has as quiet a card and a node as there is.
//
//   card   kScoreMax - fill
//   node   kScoreMax - mean fill of its healthy cards, as LeastAllocated of kube-scheduler does
//
// where fill is that after placing, 0 .. kScoreMax (fill.h).
#pragma once

#include "extender/placement/policy.h"

namespace mgpu::extender {

extern const Policy kSpread;

}  // namespace mgpu::extender
