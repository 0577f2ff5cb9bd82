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

ReplicaFacts collect_at(Cluster& cluster, const ServiceAddress& address, const std::string& name) {
  const auto client = ServiceClient::create(address, cluster.config(), cluster.timeout());
  if (!client) return unreachable(name, "--url: " + client.error().message);
  return collect_replica(**client, name);
}

ReplicaFacts collect_pod(Cluster& cluster, std::int64_t port, const ProgramPod& pod,
                         bool may_trust) {
  const std::string name = to_string(pod.ref);
  const auto forward = cluster.forward(pod.ref, port);
  if (!forward) return unreachable(name, forward.error().message);
  // The listener of a pod may have a certificate, and does not report it.
  const auto collect = [&](const char* scheme) {
    const std::string url = fmt::format("{}://127.0.0.1:{}", scheme, (*forward)->port());
    // A kubelet can create pods of its own node with any labels, but without a service account.
    const bool takes_token = may_trust && !pod.service_account.empty();
    return collect_at(cluster, {url, "", true, takes_token}, name);
  };
  const ReplicaFacts plain = collect("http");
  if (plain.readiness.known()) return plain;
  const ReplicaFacts with_tls = collect("https");
  return with_tls.readiness.known() ? with_tls : plain;
}

}  // namespace

void collect_replicas(Cluster& cluster, const ExtenderFlags& flags, Facts& facts) {
  if (!flags.url.empty()) {
    facts.replicas.push_back(collect_at(cluster, {flags.url, flags.ca_file, false}, flags.url));
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
