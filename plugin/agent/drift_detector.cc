#include "plugin/agent/drift_detector.h"

#include <unistd.h>

#include <chrono>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/files.h"
#include "common/base/log.h"
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

}  // namespace

DriftDetector::DriftDetector(Dependencies dependencies, Options options)
    : dependencies_(dependencies),
      options_(std::move(options)),
      own_pod_(pod_of_this_process(options_.proc_folder)),
      watch_(options_.contract) {}

DriftFacts DriftDetector::facts(std::vector<ProcessSample> processes) {
  DriftFacts facts{.now = steady_now(),
                   .pods = dependencies_.pods.all(),
                   .records = dependencies_.records.bound(),
                   .cards = dependencies_.inventory.state().cards};
  // While the driver hangs, its list is old, and another process may have the id of one that ended.
  const std::uint64_t reads = dependencies_.inventory.reads();
  MGPU_DEBUG_CHECK(reads >= reads_, "reads of the cards are only counted up");
  if (std::exchange(reads_, reads) != reads) facts.processes = std::move(processes);
  facts.own = {.pid = ::getpid(), .pod = own_pod_, .name_space = {}};
  if (const auto own = own_pod_.empty() ? std::nullopt : dependencies_.pods.find(own_pod_)) {
    facts.own.name_space = own->metadata.name_space;
  }
  return facts;
}

void DriftDetector::report(const Drift& drift) {
  const std::string kind(to_string(drift.kind));
  const bool of_pod = !drift.pod.name.empty();
  log_warn(
      "drift found",
      {{"kind", kind}, {"pod", of_pod ? to_string(drift.pod) : ""}, {"problem", drift.message}});
  const kube::Event event{kube::Event::Type::kWarning, "MGPU" + kind, drift.message};
  if (of_pod) {
    dependencies_.events.on_pod(drift.pod, drift.uid, event);
  } else {
    dependencies_.events.on_node(event);
  }
}

void DriftDetector::step(std::vector<ProcessSample> processes) {
  // Until then each process on a card would seem to belong to no pod.
  if (!dependencies_.pods.listed()) return;
  const auto changes = watch_.step(facts(std::move(processes)));
  for (const Drift& drift : changes.begun) report(drift);
  for (const Drift& drift : changes.ended) {
    log_info("drift ended", {{"kind", std::string(to_string(drift.kind))},
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
  for (const DriftKind kind : kNodeDriftKinds) counts[kind] = 0;
  const MutexLock lock(mutex_);
  for (const Drift& drift : list_.found) ++counts[drift.kind];
  return counts;
}

std::string DriftDetector::json() const {
  const auto wall =
      std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  const MutexLock lock(mutex_);
  return drifts_json(options_.node, list_, steady_now(), wall);
}

}  // namespace mgpu::plugin
