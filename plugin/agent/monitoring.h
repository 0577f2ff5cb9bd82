// Samples what containers use of their cards, compares it with what they hold, and updates the
// metrics.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "plugin/cards/inventory.h"
#include "plugin/containers/pods.h"
#include "plugin/containers/reserved_memory.h"
#include "plugin/monitor/metrics.h"
#include "plugin/monitor/sampler.h"
#include "plugin/monitor/watchdog.h"
#include "plugin/state/records.h"

namespace mgpu::plugin {

// One thread.
class Monitoring {
 public:
  struct Dependencies {
    Metrics& metrics;
    Inventory& inventory;
    const Pods& pods;
    const Records& records;
    // Those of the library in containers.
    const SharePages& pages;
    const ReservedMemory& reserved;
  };

  struct Options {
    NodeName node;
    std::string proc_folder;  // the node's /proc
    MiB context{0};           // of Watchdog
    bool mps = false;         // parts of cards are limited by MPS
  };
  // What was found in this sample and not before.
  struct Found {
    std::vector<Overuse> over;
    std::vector<ContainerUse> without_mps;
    std::vector<ContainerUse> uncounted;  // see UncountedWatch
    // All processes of this sample.
    std::vector<ProcessSample> processes{};
  };

  // All of `dependencies` outlive it. REQUIRES: the inventory was read.
  Monitoring(Dependencies dependencies, Options options);

  // Whether parts of cards are limited by MPS from now on.
  void set_mps(bool mps) { mps_ = mps; }
  // `now` never goes back.
  Found sample(Instant now);
  // Returns all containers that exceed their memory.
  std::vector<Overuse> over() const { return watchdog_.over(); }

 private:
  // What the API server knows of the pods.
  struct KnownPods {
    bool listed = false;  // otherwise a pod that is missing may exist
    ContainerNames names{};
    std::map<PodUid, kube::PodOwner> owners{};  // of pods that have not finished
  };

  KnownPods known_pods() const;
  static void complete(const KnownPods& pods, const std::vector<CardUse>& use,
                       std::vector<ContainerUse>& containers);
  std::vector<CardReading> readings(const std::vector<CardUse>& use) const;

  std::vector<CardProcess> processes_of(const std::vector<CardUse>& use) const;
  // Sets what the library in containers has counted, and has it count the rest.
  std::vector<ContainerUse> count_uncounted(const std::vector<Record>& records, bool fresh,
                                            std::vector<ContainerUse>& containers);
  const Dependencies dependencies_;
  bool mps_;
  ProcessSampler sampler_;
  Watchdog watchdog_;
  BypassWatch bypass_watch_;
  UncountedWatch uncounted_watch_;
  std::map<std::pair<AllocationId, CardUuid>, MiB> overhead_{};  // as last written to the pages
  MonitorMetrics metrics_;
  std::optional<std::uint64_t> reads_{};  // of the inventory, at the last sample
};

}  // namespace mgpu::plugin
