// What containers use of their cards: sampled, joined with what they hold, told to /metrics and to
// the watchdog.
#pragma once

#include <functional>
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

  // All of `parts` outlive it. `on_over` is told of a container once it uses more memory than it
  // holds; `proc_folder` is the node's /proc.
  Monitoring(Parts parts, NodeName node, std::string proc_folder,
             std::function<void(const Overuse&)> on_over);

  void sample();
  // Over now, for what must be tried again.
  std::vector<Overuse> over() const { return watchdog_.over(); }

 private:
  ContainerNames names() const;
  std::vector<CardReading> readings(const std::vector<CardUse>& use) const;

  const Parts parts_;
  const std::function<void(const Overuse&)> on_over_;
  ProcessSampler sampler_;
  Watchdog watchdog_;
  MonitorMetrics metrics_;
};

}  // namespace mgpu::plugin
