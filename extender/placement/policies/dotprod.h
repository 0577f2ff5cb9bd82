// DotProd, as published with FGD (published.h; the idea is of Tetris, Grandl et al., SIGCOMM 2014,
// turned round): the node of which the product of what is free and what is asked is smallest.
//
//   node   integer part of 100 * (1 - (C/128 * c/128 + R/8 * G/8) / 2)
//   card   the one with the least that is free
//
// where C cores and R cards are free, c cores and G cards are asked.
#pragma once

#include "extender/placement/policy.h"

namespace mgpu::extender {

extern const Policy kDotProd;

}  // namespace mgpu::extender
