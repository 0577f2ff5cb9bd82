// Compares annotations, records, kubelet and the processes on the cards after each sample, and
// reports what does not agree (monitor/drift.h): in the log, as Events, as a metric and as
// GET /drift.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "common/kube/event_recorder.h"
#include "plugin/agent/monitoring.h"
#include "plugin/cards/inventory.h"
#include "plugin/containers/pod_processes.h"
#include "plugin/containers/pods.h"
#include "plugin/kubelet/pod_resources.h"
#include "plugin/monitor/drift_watch.h"
#include "plugin/state/drift_json.h"
#include "plugin/state/records.h"

namespace mgpu::plugin {

class DriftDetector {
 public:
  struct Parts {
    const Records& records;
    const Pods& pods;
    const Inventory& inventory;
    PodResources& pod_resources;
    const PodProcesses& processes;
    kube::EventRecorder& events;
  };
  struct Settings {
    NodeName node;
    Contract contract;
    std::string plugin_folder;  // with kubelet's checkpoint
    std::string proc_folder;
    Duration unused_after{};
    Duration kubelet_period{};  // between two queries of kubelet's PodResources
  };

  // All of `parts` outlive it.
  DriftDetector(Parts parts, Settings settings);

  // `processes` are those of the last sample. Blocks while kubelet does, for kDriftKubeletTimeout
  // at most. One thread. REQUIRES: the records are complete.
  void step(CardProcesses processes);

  // Any thread.
  std::map<DriftKind, std::size_t> counts() const;
  std::string json() const;

 private:
  using Listed = std::set<std::pair<PodRef, std::string>>;
  using Checkpointed = std::set<std::pair<PodUid, std::string>>;

  DriftFacts facts(CardProcesses processes);
  std::optional<Listed> query_kubelet(const DriftFacts& facts);
  std::optional<Checkpointed> checkpointed() const;
  void report(const Drift& drift);

  const Parts parts_;
  const Settings settings_;
  PodUid own_pod_;  // empty: this process runs in no pod
  // Of the one thread.
  DriftWatch watch_;
  std::uint64_t reads_ = 0;  // of the cards before the last step
  Instant next_query_{};

  mutable Mutex mutex_;
  DriftList list_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::plugin
