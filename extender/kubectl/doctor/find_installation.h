// Where mgpu is installed, and by what.
#pragma once

#include "extender/kubectl/cluster.h"
#include "extender/kubectl/doctor/facts.h"

namespace mgpu::kubectl {

// Sets facts.name_space where it is empty, and facts.found_here, elsewhere, takes_tokens and
// installer. The pods and the Lease of mgpu show where it is. Everybody may make such objects in a
// namespace of their own, and nobody but an administrator can let a service account bind pods: a
// namespace with such an account comes before others.
void find_installation(Api& api, Facts& facts);

}  // namespace mgpu::kubectl
