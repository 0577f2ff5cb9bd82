// The policies of the extender. The formula of each is in its .cc file.
#pragma once

#include "extender/placement/policy.h"

namespace mgpu::extender {

extern const Policy kEquilibrium;  // the least loss of room that expected pods could use
extern const Policy kBinpack;      // the fullest card and node
extern const Policy kSpread;       // the emptiest card and node

}  // namespace mgpu::extender
