// The least loss of future value: value(node) before the pod less value(node) after it (prices.h),
// for the best card and for the best node. It keeps what is left of cards matched to the sizes that
// will come, lets pods that need much CPU go where CPU is plenty, and keeps cards of models that
// few may use for those few.
//
// Where nothing is known of the pods to come it is binpack, and has no opinion on pods without
// cards.
#pragma once

#include "extender/placement/policy.h"

namespace mgpu::extender {

extern const Policy kEquilibrium;

}  // namespace mgpu::extender
