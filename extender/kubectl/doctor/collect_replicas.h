// Collects what the extenders report on their inspection listeners.
#pragma once

#include <cstdint>
#include <string>

#include "extender/kubectl/cluster.h"
#include "extender/kubectl/doctor/facts.h"
#include "extender/kubectl/service_client.h"

namespace mgpu::kubectl {

// The answers of one extender.
ReplicaFacts collect_replica(ServiceClient& client, const std::string& name);

struct ReplicaAccess {
  std::string url;         // of one extender; empty: each pod of it, by kubectl port-forward
  std::string ca_file;     // for a URL with https
  std::uint16_t port = 0;  // of the listener in the pods
  ClusterFlags cluster;
};

// Sets facts.replicas. Where an extender cannot be reached, each of its facts is unknown, with the
// reason.
void collect_replicas(Cluster& cluster, const ReplicaAccess& access, Facts& facts);

}  // namespace mgpu::kubectl
