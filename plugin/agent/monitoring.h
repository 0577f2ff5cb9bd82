// Samples what containers use of their cards, compares it with what they hold, and updates the
// metrics.
#pragma once

#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "plugin/cards/inventory.h"
#include "plugin/containers/pods.h"
#include "plugin/monitor/metrics.h"
#include "plugin/monitor/sampler.h"
#include "plugin/monitor/watchdog.h"
#include "plugin/state/records.h"

namespace mgpu::plugin {

// One thread.
class Monitoring {
 public:
  struct Parts {
    Metrics& metrics;
    Inventory& inventory;
    const Pods& pods;
    const Records& records;
  };

  // All of `parts` outlive it. `proc_folder` is the node's /proc, and `context` that of Watchdog.
  // REQUIRES: the inventory was read.
  Monitoring(Parts parts, NodeName node, std::string proc_folder, MiB context);

  // Returns the containers that exceed their memory since this sample.
  std::vector<Overuse> sample();
  // Returns all containers that exceed their memory.
  std::vector<Overuse> over() const { return watchdog_.over(); }

 private:
  ContainerNames names() const;
  std::vector<CardReading> readings(const std::vector<CardUse>& use) const;

  const Parts parts_;
  ProcessSampler sampler_;
  Watchdog watchdog_;
  MonitorMetrics metrics_;
};

}  // namespace mgpu::plugin
