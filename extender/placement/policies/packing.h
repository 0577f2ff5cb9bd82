// GPU Packing, as published with FGD (published.h): cards in use first, then free cards of nodes in
// use, then nodes that are not in use. The pod takes u cards that are wholly free.
//
//   node   no cards asked                        0
//          all f usable cards are free           max(33 - f, f)
//          u > 0                                 max(50 - u, 33)
//          u = 0                                 max(100 - P/10, 50), P percent free on its cards
//   card   the one with the least that is free
#pragma once

#include "extender/placement/policy.h"

namespace mgpu::extender {

extern const Policy kPacking;

}  // namespace mgpu::extender
