// GPU Clustering, as published with FGD (published.h): like to like. The kind of a pod is a part of
// one card, one card, two cards, and so on.
//
//   node   no cards asked                               0
//          it has pods of this kind and no others       75 + fill
//          of this kind and of others                   50 + fill
//          no pods with cards                           25 + fill
//          only of others                               fill
//   card   the one with the least that is free
//
// where fill = integer part of 25 * (8 - R) / 8, R cards free.
#pragma once

#include "extender/placement/policy.h"

namespace mgpu::extender {

extern const Policy kClustering;

}  // namespace mgpu::extender
