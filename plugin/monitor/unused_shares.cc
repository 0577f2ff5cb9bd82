#include "plugin/monitor/unused_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/text.h"
#include "plugin/monitor/limits.h"

namespace mgpu::plugin {
namespace {

// A process whose container is not in the status of the pod yet may be one of any of the pod's
// containers.
bool is_used(const CardProcesses& processes, const PodUid& pod, const CardUuid& card,
             const kube::Pod& status_of, std::string_view container_id) {
  return std::ranges::any_of(processes.samples, [&](const ProcessSample& process) {
    if (process.card != card || !process.container || process.container->uid != pod) return false;
    if (process.container->container_id == container_id) return true;
    return std::ranges::find(status_of.container_statuses, process.container->container_id,
                             bare_container_id) == status_of.container_statuses.end();
  });
}

}  // namespace

std::string UnusedShares::message(const Record& record, const CardGrant& grant) const {
  return fmt::format(
      "no process of {} has been on {} for at least {}, where it holds {} % and {} MiB; delete the "
      "pod if it is not needed, or let the container request no card",
      describe_container(record.owner->container, record.owner->pod),
      describe_card(grant.index, grant.uuid), duration_text(after_), grant.share.core.value(),
      grant.share.memory.value());
}

void UnusedShares::watch(const Record& record, const CardGrant& grant,
                         const kube::ContainerStatus& status, const DriftFacts& facts) {
  const CardProcesses& processes = *facts.processes;
  const PodUid& pod = record.owner->uid;
  const std::string id(bare_container_id(status));
  const auto [at, is_new] = entries_.try_emplace({pod, record.owner->container, grant.uuid});
  Entry& entry = at->second;
  if (is_new || entry.container_id != id) entry = {id, facts.now, facts.now};
  if (is_used(processes, pod, grant.uuid, *find_pod(facts, pod), id)) entry.used = facts.now;
  if (processes.doubtful.contains(grant.uuid) && !is_unused(entry)) entry.used = facts.now;
  if (!processes.complete.contains(grant.uuid)) return;
  if (facts.now - entry.measured > kUnmeasuredMax) entry.used = facts.now;
  entry.measured = facts.now;
}

std::vector<Drift> UnusedShares::step(const DriftFacts& facts) {
  std::vector<Drift> drifts;
  auto before = std::exchange(entries_, {});
  std::optional<std::set<PodUid>> with_processes;
  for (const Record& record : facts.records) {
    if (!record.bound() || record.owner->kind == ContainerKind::kInit) continue;
    const kube::Pod* const pod = find_pod(facts, record.owner->uid);
    const auto* const status = pod ? find_running(*pod, record.owner->container) : nullptr;
    if (status == nullptr) continue;
    for (const CardGrant& grant : record.cards) {
      if (find_healthy_card(facts, grant.uuid) == nullptr) continue;
      const Key key(record.owner->uid, record.owner->container, grant.uuid);
      if (auto known = before.extract(key)) entries_.insert(std::move(known));
      watch(record, grant, *status, facts);
      const Entry& entry = entries_.at(key);
      if (!is_unused(entry)) continue;
      if (!with_processes) with_processes = facts.with_processes();
      // The pod may have ended, or its processes may not be visible to this program.
      if (!with_processes || !with_processes->contains(pod->uid())) continue;
      drifts.push_back({.kind = DriftKind::kUnusedShare,
                        .pod = pod->ref(),
                        .uid = pod->uid(),
                        .container = record.owner->container,
                        .card = grant.uuid,
                        .index = grant.index,
                        .since = entry.used,
                        .message = message(record, grant)});
    }
  }
  return drifts;
}

}  // namespace mgpu::plugin
