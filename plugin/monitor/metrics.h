// The metrics of cards, and of containers that use them. A scrape returns the last update() without
// a call of the driver.
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

// One thread.
class MonitorMetrics {
 public:
  // `metrics` outlives it. `driver` is the label of the source of the cards: "NVML 12.580 (...)".
  MonitorMetrics(Metrics& metrics, NodeName node, std::string driver);

  // Replaces all series by those of this sample. Unknown values have no series. `over` is the
  // result of Watchdog::step for this sample.
  void update(const std::vector<CardReading>& cards, const Joined& joined,
              const std::vector<Overuse>& over);

 private:
  using ContainerKey = std::tuple<PodRef, std::string, CardUuid>;
  using Uses = std::map<ContainerKey, const ContainerUse*>;

  void add_cards(const std::vector<CardReading>& cards, const Joined& joined,
                 std::vector<MetricFamily>& families) const;
  void add_containers(const Uses& uses, std::vector<MetricFamily>& families) const;

  Metrics& metrics_;
  NodeName node_;
  std::string driver_;
  std::map<ContainerKey, std::uint64_t> over_limit_;
};

}  // namespace mgpu::plugin
