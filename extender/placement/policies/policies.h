// All policies. The formula of each is in its .cc file.
#pragma once

#include "extender/placement/policy.h"

namespace mgpu::extender {

extern const Policy kEquilibrium;  // the least loss of room that expected pods could use
extern const Policy kBinpack;      // the fullest card and node
extern const Policy kSpread;       // the emptiest card and node
extern const Policy kFgd;          // the least growth of fragmentation
extern const Policy kBestFit;      // the least left over
extern const Policy kPacking;      // cards in use, then nodes in use, then free nodes
extern const Policy kClustering;   // nodes with pods of the same size
extern const Policy kDotProd;      // the smallest product of what is free and what is requested
extern const Policy kRandom;       // any node, any card

}  // namespace mgpu::extender
