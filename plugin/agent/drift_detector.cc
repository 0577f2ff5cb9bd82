#include "plugin/agent/drift_detector.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "common/base/files.h"
#include "common/base/log.h"
#include "plugin/kubelet/checkpoint.h"
#include "plugin/monitor/cgroup.h"
#include "plugin/monitor/limits.h"

namespace mgpu::plugin {

namespace {

Instant steady_now() {
  return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
}

PodUid pod_of_this_process(const std::string& proc_folder) {
  const auto text = read_file(proc_folder + "/self/cgroup", kProcFileBytesMax);
  const auto container = text ? container_of(*text) : std::nullopt;
  return container ? container->uid : PodUid();
}

// Whether kubelet can be expected to list devices of any container.
bool runs_with_cards(const DriftFacts& facts, const Contract& contract) {
  if (!facts.records.empty()) return true;
  return std::ranges::any_of(facts.pods, [&](const kube::Pod& pod) {
    const auto& annotations = pod.metadata.annotations;
    const auto cards = annotations.lower_bound(contract.index_prefix);
    return !pod.finished() && cards != annotations.end() &&
           cards->first.starts_with(contract.index_prefix);
  });
}

// Calls `make` once, however often the result is called.
template <class Make>
auto once(Make make) {
  return [make, made = std::optional<std::invoke_result_t<Make>>()]() mutable {
    if (!made) made = make();
    return *made;
  };
}

}  // namespace

DriftDetector::DriftDetector(Parts parts, Settings settings)
    : parts_(parts),
      settings_(std::move(settings)),
      own_pod_(pod_of_this_process(settings_.proc_folder)),
      watch_(settings_.contract, settings_.unused_after) {}

DriftFacts DriftDetector::facts(CardProcesses processes) {
  DriftFacts facts{.now = steady_now(),
                   .pods = parts_.pods.all(),
                   .records = parts_.records.bound(),
                   .cards = parts_.inventory.state().cards};
  // While the driver hangs, its list is old, and another process may have the id of one that ended.
  const std::uint64_t reads = parts_.inventory.reads();
  if (std::exchange(reads_, reads) != reads) facts.processes = std::move(processes);
  facts.own = {.pid = ::getpid(), .pod = own_pod_, .name_space = {}};
  if (const auto own = own_pod_.empty() ? std::nullopt : parts_.pods.find(own_pod_)) {
    facts.own.name_space = own->metadata.name_space;
  }
  facts.listed = query_kubelet(facts);
  facts.checkpointed = once([this] { return checkpointed(); });
  facts.with_processes = once([this]() -> std::optional<std::set<PodUid>> {
    auto pods = parts_.processes.pods();
    return pods ? std::optional(*std::move(pods)) : std::nullopt;
  });
  return facts;
}

std::optional<DriftDetector::Listed> DriftDetector::query_kubelet(const DriftFacts& facts) {
  if (facts.now < next_query_) return std::nullopt;
  next_query_ = facts.now + settings_.kubelet_period;
  if (!runs_with_cards(facts, settings_.contract)) return Listed();
  const auto containers =
      parts_.pod_resources.list(settings_.contract.core_resource, kDriftKubeletTimeout);
  if (!containers) return std::nullopt;
  Listed listed;
  for (const ContainerDevices& one : *containers) listed.insert({one.pod, one.container});
  return listed;
}

std::optional<DriftDetector::Checkpointed> DriftDetector::checkpointed() const {
  const auto checkpoint =
      read_checkpoint(settings_.plugin_folder, settings_.contract.core_resource);
  if (!checkpoint || checkpoint->unreadable != 0) return std::nullopt;
  Checkpointed containers;
  for (const CheckpointEntry& entry : checkpoint->entries) {
    containers.insert({entry.uid, entry.container});
  }
  return containers;
}

void DriftDetector::report(const Drift& drift) {
  const std::string kind(label(drift.kind));
  const bool of_pod = !drift.pod.name.empty();
  log_warn(
      "drift found",
      {{"kind", kind}, {"pod", of_pod ? to_string(drift.pod) : ""}, {"problem", drift.message}});
  // An unused share breaks no pod, so its Event is of type Normal.
  const auto type = drift.kind == DriftKind::kUnusedShare ? kube::Event::Type::kNormal
                                                          : kube::Event::Type::kWarning;
  const kube::Event event{type, "MGPU" + kind, drift.message};
  if (of_pod) {
    parts_.events.on_pod(drift.pod, drift.uid, event);
  } else {
    parts_.events.on_node(event);
  }
}

void DriftDetector::step(CardProcesses processes) {
  if (!parts_.pods.listed()) return;
  const auto changes = watch_.step(facts(std::move(processes)));
  for (const Drift& drift : changes.begun) report(drift);
  for (const Drift& drift : changes.ended) {
    log_info("drift ended", {{"kind", std::string(label(drift.kind))},
                             {"pod", drift.pod.name.empty() ? "" : to_string(drift.pod)},
                             {"container", drift.container},
                             {"card", drift.index ? std::to_string(drift.index->value()) : ""}});
  }
  DriftList list{watch_.current(), watch_.left_out()};
  const MutexLock lock(mutex_);
  list_ = std::move(list);
}

std::map<DriftKind, std::size_t> DriftDetector::counts() const {
  std::map<DriftKind, std::size_t> counts;
  for (const DriftKind kind : kDriftKinds) counts[kind] = 0;
  const MutexLock lock(mutex_);
  for (const Drift& drift : list_.found) ++counts[drift.kind];
  return counts;
}

std::string DriftDetector::json() const {
  const auto wall =
      std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  const MutexLock lock(mutex_);
  return drifts_json(settings_.node, list_, steady_now(), wall);
}

}  // namespace mgpu::plugin
