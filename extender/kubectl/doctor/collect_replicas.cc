#include <fmt/format.h>

#include <utility>

#include "extender/kubectl/doctor/collect.h"
#include "extender/kubectl/doctor/read_facts.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

ReplicaFacts unreachable(const std::string& name, const std::string& problem) {
  ReplicaFacts replica;
  replica.name = name;
  replica.readiness = {Missing::kFailed, problem};
  replica.version = {Missing::kFailed, problem};
  replica.metrics = {Missing::kFailed, problem};
  replica.cluster = {Missing::kFailed, problem};
  return replica;
}

// The answers of one extender.
ReplicaFacts collect_replica(ServiceClient& client, const std::string& name) {
  ReplicaFacts replica;
  replica.name = name;
  const auto get = [&](const char* path, bool any_status = false) {
    return client.get(path, fmt::format("GET {} of the extender", path), any_status);
  };
  // 503 has the same body.
  replica.readiness = read_fact(get("/readyz", true), "/readyz of the extender", read_readiness);
  if (!replica.readiness.known()) {
    return unreachable(name, replica.readiness.problem());
  }
  replica.version = read_fact(get("/version"), "/version of the extender", read_program_version);
  replica.metrics = read_fact(get("/metrics"), "/metrics of the extender", parse_metrics);
  replica.cluster = read_fact(get("/inspect/cluster?limit=1"), "/inspect/cluster of the extender",
                              read_inspected_cluster);
  return replica;
}

ReplicaFacts collect_pod(Cluster& cluster, std::int64_t port, const ProgramPod& pod,
                         bool may_trust) {
  const std::string name = to_string(pod.ref);
  // A kubelet can create pods of its own node with any labels, but without a service account.
  const bool takes_token = may_trust && !pod.service_account.empty();
  const auto client = ServiceClient::to_pod(cluster, pod.ref, port, takes_token);
  return client ? collect_replica(**client, name) : unreachable(name, client.error().message);
}

}  // namespace

void collect_replicas(Cluster& cluster, const ExtenderFlags& flags, Facts& facts) {
  if (!flags.url.empty()) {
    const auto client =
        ServiceClient::create({flags.url, flags.ca_file}, cluster.config(), cluster.timeout());
    facts.replicas.push_back(client ? collect_replica(**client, flags.url)
                                    : unreachable(flags.url, "--url: " + client.error().message));
    return;
  }
  if (!facts.extender_pods.known()) return;
  for (const ProgramPod& pod : facts.extender_pods.value()) {
    if (facts.replicas.size() == kReplicasMax) return;
    if (pod.phase != "Running") continue;
    facts.replicas.push_back(collect_pod(cluster, flags.port, pod, facts.takes_tokens));
  }
}

}  // namespace mgpu::kubectl
