// Compares annotations, records and the processes on the cards after each sample, and reports what
// does not agree (monitor/drift.h): in the log, as Events, as a metric and as GET /drift.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/kube/event_recorder.h"
#include "plugin/cards/inventory.h"
#include "plugin/containers/pods.h"
#include "plugin/monitor/drift_watch.h"
#include "plugin/state/drift_json.h"
#include "plugin/state/records.h"

namespace mgpu::plugin {

class DriftDetector {
 public:
  struct Dependencies {
    const Records& records;
    const Pods& pods;
    const Inventory& inventory;
    kube::EventRecorder& events;
  };
  struct Options {
    NodeName node;
    Contract contract;
    std::string proc_folder;
  };

  // All of `dependencies` outlive it.
  DriftDetector(Dependencies dependencies, Options options);

  // `processes` are those of the last sample. One thread. REQUIRES: the records are complete.
  void step(std::vector<ProcessSample> processes);

  // Any thread.
  std::map<DriftKind, std::size_t> counts() const;
  std::string json() const;

 private:
  DriftFacts facts(std::vector<ProcessSample> processes);
  void report(const Drift& drift);

  const Dependencies dependencies_;
  const Options options_;
  PodUid own_pod_;  // empty: this process runs in no pod
  // Used by the one thread.
  DriftWatch watch_;
  std::uint64_t reads_ = 0;  // of the cards before the last step

  mutable Mutex mutex_;
  DriftList list_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::plugin
