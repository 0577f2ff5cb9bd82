// Random: any node, any card.
//
//   card   a hash of the pod's draw and the card's index
//   node   a hash of the pod's draw and the node's name
//
// each 0 .. kScoreMax. No pod is asked about twice with another answer: its draw is its own.
#pragma once

#include "extender/placement/policy.h"

namespace mgpu::extender {

extern const Policy kRandom;

}  // namespace mgpu::extender
