// The pods of the extender, what they report, the versions of all programs, the Lease, and where
// the Service sends kube-scheduler.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "common/base/text.h"
#include "extender/kubectl/doctor/checks.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

// --- extender ------------------------------------------------------------------------------------

constexpr Remedy kSeeExtenderLog = to_look("the log of the extender has the reason");
constexpr Remedy kReadListener{
    Act::kChange,
    "the listener of --metrics-bind-address serves metrics and inspection on loopback, or with a "
    "certificate (--metrics-tls-cert-file) to users with the ClusterRoles "
    "mgpu-metrics-reader and mgpu-inspection-reader"};

Matches pods_that_are_not_ready(At at) {
  const auto& pods = items(at.facts.extender_pods);
  const bool any_ready = std::ranges::any_of(pods, &ProgramPod::ready);
  return each(pods,
              [](const ProgramPod& pod) {
                return when(!pod.ready && !pod.being_deleted, pod.state())
                    .about({to_string(pod.ref)});
              })
      .as(any_ready ? Level::kWarning : Level::kError);
}

// What the extender is ready without: pods that cannot be changed, or other things.
Matches ready_without(At at, bool pods) {
  return each(at.replica->readiness->without, [&](const std::string& missing) {
    return when(missing.ends_with("cannot be changed") == pods, missing);
  });
}

constexpr Rule kPods[] = {
    needs<&Facts::extender_pods>(Level::kUnknown),
    {Level::kError, "a pod of mgpu-extender is not ready ({0})",
     to_look("see kubectl logs and kubectl describe pod, and the sentences below, for the reason"),
     pods_that_are_not_ready},
    {Level::kError, "namespace {0} has no pod of mgpu-extender",
     to_change("install it as deploy/INSTALL.md says, name its namespace with -n, or where it does "
               "not run in pods, its inspection listener with --url"),
     [](At at) {
       const auto& pods = at.facts.extender_pods;
       return when(pods.known() && pods->empty() && at.facts.replicas.empty(), at.facts.name_space);
     }},
};

constexpr Rule kReplica[] = {
    {last(Level::kUnknown), "{0}",
     to_change("kubectl port-forward needs the right to create pods/portforward, and the port of "
               "--metrics-port; --url connects to the listener without kubectl"),
     [](At at) { return when(!at.replica->readiness.known(), at.replica->readiness.problem()); }},
    {Level::kError, "the extender {0}", kSeeExtenderLog,
     [](At at) {
       const Readiness& readiness = at.replica->readiness.value();
       return when(!readiness.ready,
                   readiness.waiting_for.empty()
                       ? "is not ready"
                       : fmt::format("waits for: {}", fmt::join(readiness.waiting_for, ", ")));
     }},
    {Level::kWarning, "the extender is ready beside {0}",
     to_change("let the service account of the extender patch pods/status of each pod; kubectl get "
               "events -A --field-selector reason=MGPUCannotChangePod names the pods, and what "
               "refuses it"),
     [](At at) { return ready_without(at, true); }},
    {Level::kWarning, "the extender is ready without {0}", kSeeExtenderLog,
     [](At at) { return ready_without(at, false); }},
    {Level::kWarning, "the API server gives the extender {0}",
     to_change("check the network between them, and the extender's log"),
     [](At at) {
       const std::string& answers = at.replica->readiness->api_server;
       return when(answers.starts_with("no answer"), answers);
     }},
    {Level::kWarning, "the extender skips {0} objects of {1} that it cannot read",
     to_look("the log of the extender names each of them"),
     [](At at) {
       return each(at.replica->readiness->unreadable, [](const auto& skipped) {
         return when(skipped.second != 0, skipped.second, skipped.first);
       });
     }},
    {Level::kUnknown, "{0}", kReadListener,
     [](At at) { return when(!at.replica->metrics.known(), at.replica->metrics.problem()); }},
    {Level::kUnknown, "{0}", kReadListener,
     [](At at) { return when(!at.replica->cluster.known(), at.replica->cluster.problem()); }},
};

constexpr Rule kReady[] = {
    {Level::kOk, "the extender is ready{0}", kNothing,
     [](At at) {
       const auto ready = std::ranges::count_if(items(at.facts.extender_pods), &ProgramPod::ready);
       return when(true, ready == 0 ? "" : ", in " + counted(ready, "pod"));
     }},
};

// --- versions ------------------------------------------------------------------------------------

// The versions of the pods and replicas of one program, with their names.
using Names = std::map<std::string, std::vector<std::string>>;

Names extender_versions(const Facts& facts) {
  Names names;
  for (const ReplicaFacts& replica : facts.replicas) {
    if (replica.version.known()) names[replica.version.value()].push_back(replica.name);
  }
  return names;
}

Names plugin_versions(const Facts& facts) {
  Names names;
  for (const ProgramPod& pod : items(facts.plugin_pods)) {
    if (parse_version(pod.version)) names[pod.version].push_back(to_string(pod.ref));
  }
  return names;
}

// The versions of `ones` that differ from those of `others`. A version that works with the other
// one is a note, without a remedy if `fine_if_fitting`.
Matches differing_versions(const Names& ones, const Names& others, bool fine_if_fitting) {
  return each(ones, [&](const auto& one) {
    return each(others, [&](const auto& other) {
      const auto& [version, names] = one;
      auto found = when(version != other.first, version, other.first).about(names);
      if (!fit_together(version, other.first)) return found;
      found = std::move(found).as(Level::kNote);
      return fine_if_fitting ? std::move(found).with({}) : found;
    });
  });
}

constexpr Rule kVersions[] = {
    {Level::kWarning, "replicas of the extender have different versions, these have {0}",
     to_change("wait for the end of the rollout; kubectl rollout status shows what it waits for"),
     [](At at) {
       const Names all = extender_versions(at.facts);
       return each(all, [&](const auto& version) {
         return when(all.size() > 1, version.first).about(version.second);
       });
     }},
    {Level::kWarning, "the extender has version {0}, and kubectl mgpu has {1}",
     to_change("use the kubectl-mgpu of the extender's release"),
     [](At at) {
       return differing_versions(extender_versions(at.facts), {{at.facts.cli_version, {}}}, false);
     }},
    {Level::kWarning, "the device plugin has version {0}, and the extender has {1}",
     to_change("upgrade step by step: minor versions may differ by one"),
     [](At at) {
       return differing_versions(plugin_versions(at.facts), extender_versions(at.facts), true);
     }},
    {Level::kUnknown, "{0}", kTryAgain,
     [](At at) {
       const bool any = !extender_versions(at.facts).empty();
       return each(at.facts.replicas, [&](const ReplicaFacts& replica) {
         return any ? Matches{} : unknown(replica.version);
       });
     }},
    {Level::kOk, "all programs have version {0}", kNothing,
     [](At at) { return when(!at.facts.replicas.empty(), at.facts.cli_version); }},
};

// --- leader --------------------------------------------------------------------------------------

constexpr std::size_t kRandomDigits = 16;

// Whether `holder` has the form of extender/process_identity.h: a host, "_" and 64 random bits.
bool is_identity(std::string_view holder) {
  const std::size_t end = holder.rfind('_');
  if (end == holder.npos || end == 0) return false;
  const std::string_view random = holder.substr(end + 1);
  return random.size() == kRandomDigits &&
         random.find_first_not_of("0123456789abcdef") == random.npos;
}

// The pod of mgpu that holds the Lease; null if there is none. The host of an identity is that of
// the pod, or with hostNetwork that of its node.
const ProgramPod* leader_of(const Facts& facts) {
  if (!facts.lease.known()) return nullptr;
  const std::string_view holder = facts.lease->holder;
  const std::string_view host = holder.substr(0, holder.rfind('_'));
  for (const ProgramPod& pod : items(facts.extender_pods)) {
    const bool alive = pod.phase == "Running";
    if (alive && (pod.ref.name == host || pod.node == host)) return &pod;
  }
  return nullptr;
}

template <class... Words>
Matches about_lease(const Facts& facts, bool holds, const Words&... words) {
  return when(holds, facts.name_space, facts.lease_name, words...);
}

constexpr Remedy kSeeReplicas =
    to_look("see whether the pods of the extender run and reach the API server");

constexpr Rule kLeader[] = {
    {last(Level::kError), "there is no Lease {0}/{1}, so that no extender has ever started",
     to_look("see why the extender does not become ready, or name its namespace with -n and its "
             "Lease with --lease-name"),
     [](At at) { return about_lease(at.facts, at.facts.lease.absent()); }},
    needs<&Facts::lease>(),
    {last(Level::kError), "the Lease {0}/{1} has no holder", kSeeReplicas,
     [](At at) { return about_lease(at.facts, at.facts.lease->holder.empty()); }},
    {Level::kError,
     "the Lease {0}/{1} is held by \"{2}\", which is no living pod of mgpu-extender, so that no "
     "extender binds pods",
     to_change("find who writes it (kubectl get lease -n {0} {1} -o yaml), end that, and restart "
               "the extender"),
     [](At at) {
       const std::string& holder = at.facts.lease->holder;
       const bool has_pods = !items(at.facts.extender_pods).empty();
       return about_lease(
           at.facts, !is_identity(holder) || (has_pods && leader_of(at.facts) == nullptr), holder);
     }},
    {Level::kNote, "the Lease {0}/{1} is held by \"{2}\", a process outside of pods", kNothing,
     [](At at) {
       const std::string& holder = at.facts.lease->holder;
       const auto& pods = at.facts.extender_pods;
       return about_lease(at.facts, is_identity(holder) && pods.known() && pods->empty(), holder);
     }},
    {Level::kError,
     "the Lease {0}/{1} was not renewed for {2} s, and is valid for {3} s, so that no extender "
     "leads",
     kSeeReplicas,
     [](At at) {
       const LeaseFacts& lease = at.facts.lease.value();
       const auto age = at.facts.now - lease.renewed.value_or(at.facts.now);
       const std::chrono::seconds duration(lease.duration_seconds.value_or(0));
       return about_lease(at.facts, lease.duration_seconds && age > duration + kLeaseSlack,
                          age.count(), duration.count());
     }},
    {Level::kOk, "the Lease {0}/{1} is held by \"{2}\"", kNothing,
     [](At at) { return about_lease(at.facts, true, at.facts.lease->holder); }},
};

// --- endpoints -----------------------------------------------------------------------------------

std::vector<std::string> addresses_of(const Facts& facts) {
  std::vector<std::string> addresses;
  for (const SliceFacts& slice : items(facts.slices)) {
    std::ranges::copy(slice.addresses, std::back_inserter(addresses));
  }
  return addresses;
}

template <class... Words>
Matches about_service(const Facts& facts, bool holds, const Words&... words) {
  return when(holds, facts.name_space, facts.service, words...);
}

bool knows_pods(const Facts& facts) {
  return facts.lease.known() && facts.extender_pods.known();
}

constexpr Rule kEndpoints[] = {
    {last(Level::kOk),
     "there is no Service {0}/{1}: kube-scheduler calls the extender at an address", kNothing,
     [](At at) { return about_service(at.facts, at.facts.service_name.absent()); }},
    needs<&Facts::service_name>(),
    needs<&Facts::slices>(),
    {last(Level::kError),
     "the EndpointSlices of the Service {0}/{1} have no address, so that kube-scheduler reaches no "
     "extender",
     to_look("the extender that leads writes them: see its log, and its right to update "
             "endpointslices"),
     [](At at) { return about_service(at.facts, addresses_of(at.facts).empty()); }},
    {last(Level::kUnknown),
     "the Service {0}/{1} has the addresses {2}, and the leader's address is not known", kNothing,
     [](At at) {
       const ProgramPod* const leader = leader_of(at.facts);
       const bool is_known = leader != nullptr && !leader->address.empty();
       return about_service(at.facts, knows_pods(at.facts) && !is_known,
                            fmt::format("{}", fmt::join(addresses_of(at.facts), ", ")));
     }},
    {Level::kError,
     "the Service {0}/{1} points at an address that is not the one of the leader {2} ({3})",
     to_change("the extender that leads writes the EndpointSlice: see its log, and delete "
               "EndpointSlices of others"),
     [](At at) {
       const ProgramPod* const leader = leader_of(at.facts);
       if (leader == nullptr) return Matches{};
       return each(addresses_of(at.facts), [&](const std::string& address) {
         return about_service(at.facts, address != leader->address, to_string(leader->ref),
                              leader->address)
             .about({address});
       });
     }},
    {Level::kOk, "the Service {0}/{1} points at the leader {2}", kNothing,
     [](At at) {
       const ProgramPod* const leader = leader_of(at.facts);
       return about_service(at.facts, leader != nullptr,
                            leader == nullptr ? "" : to_string(leader->ref));
     }},
};

}  // namespace

std::vector<Check> extender_checks() {
  return {
      {"extender",
       {{Each::kInstallation, kPods}, {Each::kReplica, kReplica}, {Each::kInstallation, kReady}}},
      {"versions", {{Each::kInstallation, kVersions}}},
      {"leader", {{Each::kInstallation, kLeader}}},
      {"endpoints", {{Each::kInstallation, kEndpoints}}}};
}

}  // namespace mgpu::kubectl
