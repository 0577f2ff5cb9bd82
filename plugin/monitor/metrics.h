// Cards and what containers use of them, as metrics. A scrape costs the text of what the last
// update() left: no driver is asked, no file read.
//
// Labels: cards have node, index and uuid; containers namespace, pod, container, index and uuid.
// Never a pid, an id of a container or a pod's uid: they would make series without end.
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
  std::optional<MiB> memory_used;    // of the whole card; none: the driver does not say
  std::optional<double> sm_percent;  // the same
};

// One thread.
class MonitorMetrics {
 public:
  // `metrics` outlives it. `driver` names what the cards are read from: "NVML 12.580 (...)".
  MonitorMetrics(Metrics& metrics, NodeName node, std::string driver);

  // Everything as of this sample. Containers and cards that are not in it are gone from the
  // metrics; what is not known (a utilisation without a sample) is left out, not zero. `over`:
  // what Watchdog::step returned for this sample.
  void update(const std::vector<CardReading>& cards, const Joined& joined,
              const std::vector<Overuse>& over);

 private:
  using ContainerKey = std::tuple<PodRef, std::string, CardUuid>;
  using Uses = std::map<ContainerKey, const ContainerUse*>;

  void count_over_limit(const Uses& uses, const std::vector<Overuse>& over);
  void add_cards(const std::vector<CardReading>& cards, const Joined& joined,
                 std::vector<MetricFamily>& families) const;
  void add_containers(const Uses& uses, std::vector<MetricFamily>& families) const;

  Metrics& metrics_;
  NodeName node_;
  std::string driver_;
  std::map<ContainerKey, std::uint64_t> over_limit_;
};

}  // namespace mgpu::plugin
