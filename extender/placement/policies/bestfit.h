// BestFit, as published with FGD (published.h): the node that has least left afterwards.
//
//   node   integer part of 100 * (1 - ((C - c)/128 + (R - G)/8) / 2)
//   card   the one with the least that is free
//
// where C cores and R cards are free, c cores and G cards are asked. The published policy then
// stretches the scores of one decision, whole numbers within 0..100, to all of 0..100: that keeps
// their order and makes no two equal, so that it is left out.
#pragma once

#include "extender/placement/policy.h"

namespace mgpu::extender {

extern const Policy kBestFit;

}  // namespace mgpu::extender
