// Binpack: fill what is begun, so that whole cards and whole nodes stay free for those who need
// them.
//
//   card   kScoreMax/2 + fill/2 where something is on the card already, fill/2 on an empty one
//   node   mean fill of its healthy cards, as MostAllocated of kube-scheduler does for a node
//
// where fill is that after placing, 0 .. kScoreMax (fill.h). So an empty card is opened only where
// no other has room; then the one that is filled most.
#pragma once

#include "extender/placement/policy.h"

namespace mgpu::extender {

extern const Policy kBinpack;

}  // namespace mgpu::extender
