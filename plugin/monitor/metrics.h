// The metrics of cards, and of containers that use them. A scrape returns the last update() without
// a call of the driver.
//
// The counters of a container count since its first sample, or since this process began. Each
// sample stands for the time since the one before. The driver measures the compute over 1/6 to 1 s,
// so that a load that changes within seconds is estimated from points.
//
// Labels: cards have node, index and uuid; containers have namespace, pod, container, index and
// uuid. Pids, container ids and pod uids are not labels, since their number is unbounded.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/base/metrics.h"
#include "common/base/units.h"
#include "common/contract/contract.h"
#include "plugin/monitor/join.h"
#include "plugin/monitor/watchdog.h"

namespace mgpu::plugin {

struct CardReading {
  CardFacts facts;
  std::optional<MiB> memory_used;    // not set if the driver does not report it
  std::optional<double> sm_percent;  // of the whole card; not set without a sample
};

// When a sample was taken.
struct SampleTime {
  Instant now{};
  bool fresh = true;  // the driver was read since the last sample
};

// One thread.
class MonitorMetrics {
 public:
  // `metrics` outlives it. `driver` is the label of the source of the cards: "NVML 12.580 (...)".
  MonitorMetrics(Metrics& metrics, NodeName node, std::string driver);

  // Replaces all series by those of this sample. Unknown values have no series. `over` is the
  // result of Watchdog::step for this sample.
  void update(const std::vector<CardReading>& cards, const Joined& joined,
              const std::vector<Overuse>& over, SampleTime time);

 private:
  using ContainerKey = std::tuple<PodRef, std::string, CardUuid>;
  using Uses = std::map<ContainerKey, const ContainerUse*>;
  struct Counts {
    double over_limit = 0;
    double granted = 0;               // seconds of the whole card
    std::optional<double> used = {};  // not set: it was never measured
    Instant sampled{};
    Instant measured{};  // the last read of the driver, or the first sample
  };

  void count(const Uses& uses, const std::vector<Overuse>& over, SampleTime time);
  void add_cards(const std::vector<CardReading>& cards, const Joined& joined,
                 std::vector<MetricFamily>& families) const;
  void add_containers(const Uses& uses, std::vector<MetricFamily>& families) const;
  static MetricFamily owners(const Uses& uses);

  Metrics& metrics_;
  NodeName node_;
  std::string driver_;
  std::map<ContainerKey, Counts> counts_;
};

}  // namespace mgpu::plugin
