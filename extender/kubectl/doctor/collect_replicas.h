// Collects what the extenders report on their inspection listeners.
#pragma once

#include <string>

#include "extender/kubectl/doctor/facts.h"
#include "extender/kubectl/extender_access.h"

namespace mgpu::kubectl {

// The answers of one extender.
ReplicaFacts collect_replica(ServiceClient& client, const std::string& name);

// Sets facts.replicas. Where an extender cannot be reached, each of its facts is unknown, with the
// reason.
void collect_replicas(Cluster& cluster, const ExtenderFlags& flags, Facts& facts);

}  // namespace mgpu::kubectl
