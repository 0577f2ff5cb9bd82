// The published policies that the extender is compared with. They are given to the extender's own
// verbs in VerbOptions::policy, as one of its policies is. The formula of each is in its .cc file.
#pragma once

#include <string_view>

#include "common/base/result.h"
#include "extender/ledger/ledger.h"
#include "extender/placement/policy.h"

namespace mgpu::trace {

using extender::Policy;

extern const Policy kFgd;           // the least growth of fragmentation
extern const Policy kBestFit;       // the least left over
extern const Policy kPacking;       // cards in use, then nodes in use, then free nodes
extern const Policy kClustering;    // nodes with pods of the same size
extern const Policy kDotProd;       // the smallest product of what is free and what is requested
extern const Policy kRandomPolicy;  // any node, any card

// The score of clustering for a pod with cards. It depends on the pods of the node, of which a
// decision of the extender knows nothing: there clustering has no preference. REQUIRES: the ledger
// has the node.
extender::Score clustering_score(const extender::View& view, std::string_view node,
                                 const GpuRequest& pod);

// Policies of the extender or published ones. Errors: as extender::find_policy.
Result<extender::PolicyChoice> find_policy(std::string_view name);

}  // namespace mgpu::trace
