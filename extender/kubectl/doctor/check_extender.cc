// The pods of the extender, what they report, and the versions of all programs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "extender/kubectl/doctor/checks.h"

namespace mgpu::kubectl {
namespace {

void check_pod(const ProgramPod& pod, bool others_ready, Findings& findings) {
  if (pod.ready || pod.being_deleted) return;
  add_grouped(findings, to_string(pod.ref), others_ready ? Level::kWarning : Level::kError,
              fmt::format("a pod of mgpu-extender is not ready ({})", pod.state()), kSeePod);
}

void check_readiness(const ReplicaFacts& replica, Findings& findings) {
  const auto add = [&](Level level, std::string what, Advice remedy) {
    add_grouped(findings, replica.name, level, std::move(what), std::move(remedy));
  };
  if (!replica.readiness.known()) {
    return add(Level::kUnknown, replica.readiness.problem(), kReachListener);
  }
  const Readiness& readiness = replica.readiness.value();
  if (!readiness.ready) {
    const std::string missing =
        readiness.waiting_for.empty()
            ? "is not ready"
            : fmt::format("waits for: {}", fmt::join(readiness.waiting_for, ", "));
    add(Level::kError, "the extender " + missing, kSeeExtenderLog);
  }
  for (const std::string& missing : readiness.without) {
    const bool pods = missing.ends_with("cannot be changed");
    add(Level::kWarning,
        fmt::format("the extender is ready {} {}", pods ? "beside" : "without", missing),
        pods ? kLetChange : kSeeExtenderLog);
  }
  if (readiness.api_server.starts_with("no answer")) {
    add(Level::kWarning, fmt::format("the API server gives the extender {}", readiness.api_server),
        kCheckNetwork);
  }
  for (const auto& [collection, count] : readiness.unreadable) {
    if (count == 0) continue;
    add(Level::kWarning,
        fmt::format("the extender skips {} objects of {} that it cannot read", count, collection),
        kSeeSkipped);
  }
}

void check_views(const ReplicaFacts& replica, Findings& findings) {
  for (const auto& [missing, problem] :
       {std::pair(!replica.metrics.known(), &replica.metrics.problem()),
        std::pair(!replica.cluster.known(), &replica.cluster.problem())}) {
    if (!missing || !replica.readiness.known()) continue;
    add_grouped(findings, replica.name, Level::kUnknown, *problem, kReadListener);
  }
}

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
  if (!facts.plugin_pods.known()) return names;
  for (const ProgramPod& pod : facts.plugin_pods.value()) {
    if (parse_version(pod.version)) names[pod.version].push_back(to_string(pod.ref));
  }
  return names;
}

// Releases of one major version work together if their minor versions differ by at most one.
bool fit_together(const std::string& one, const std::string& other) {
  const auto a = parse_version(one);
  const auto b = parse_version(other);
  if (!a || !b) return one == other;
  return a->major == b->major && std::abs(a->minor - b->minor) <= 1;
}

}  // namespace

Findings check_extender(const Facts& facts) {
  Findings findings;
  if (known_or_add(facts.extender_pods, findings)) {
    const auto& pods = facts.extender_pods.value();
    const bool any_ready = std::ranges::any_of(pods, &ProgramPod::ready);
    for (const ProgramPod& pod : pods) check_pod(pod, any_ready, findings);
    if (pods.empty() && facts.replicas.empty()) {
      findings.push_back({Level::kError,
                          fmt::format("namespace {} has no pod of mgpu-extender", facts.name_space),
                          kInstall});
    }
  }
  for (const ReplicaFacts& replica : facts.replicas) {
    check_readiness(replica, findings);
    check_views(replica, findings);
  }
  const std::size_t ready = facts.extender_pods.known()
                                ? static_cast<std::size_t>(std::ranges::count_if(
                                      facts.extender_pods.value(), &ProgramPod::ready))
                                : 0;
  return or_ok(std::move(findings), ready == 0
                                        ? "the extender is ready"
                                        : "the extender is ready, in " + count_text(ready, "pod"));
}

Findings check_versions(const Facts& facts) {
  Findings findings;
  const Names extenders = extender_versions(facts);
  const Names plugins = plugin_versions(facts);
  if (extenders.size() > 1) {
    for (const auto& [version, names] : extenders) {
      findings.push_back(
          {Level::kWarning,
           fmt::format("replicas of the extender have different versions, these have {}", version),
           kAwaitRollout, names});
    }
  }
  for (const auto& [version, names] : extenders) {
    if (version == facts.cli_version) continue;
    findings.push_back({fit_together(version, facts.cli_version) ? Level::kNote : Level::kWarning,
                        fmt::format("the extender has version {}, and kubectl mgpu has {}", version,
                                    facts.cli_version),
                        kOtherClient, names});
  }
  for (const auto& [version, names] : plugins) {
    for (const auto& [other, ignored] : extenders) {
      if (version == other) continue;
      const bool fits = fit_together(version, other);
      findings.push_back(
          {fits ? Level::kNote : Level::kWarning,
           fmt::format("the device plugin has version {}, and the extender has {}", version, other),
           fits ? Advice() : kUpgradeSteps, names});
    }
  }
  if (extenders.empty()) {
    if (facts.replicas.empty()) return findings;
    for (const ReplicaFacts& replica : facts.replicas) known_or_add(replica.version, findings);
  }
  return or_ok(std::move(findings), fmt::format("all programs have version {}", facts.cli_version));
}

}  // namespace mgpu::kubectl
