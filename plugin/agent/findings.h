// Reports what is wrong with containers and cards: in the log, by Events, and by evictions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/kube/event_recorder.h"
#include "common/kube/transport.h"
#include "plugin/allocation/decide.h"
#include "plugin/cards/inventory.h"
#include "plugin/cards/mps/mps.h"
#include "plugin/monitor/sampler.h"
#include "plugin/monitor/watchdog.h"
#include "plugin/state/records.h"

namespace mgpu::plugin {

class Findings {
 public:
  struct Options {
    bool evict = false;       // pods that exceed their memory
    std::string proc_folder;  // the node's /proc
  };

  // All outlive it.
  Findings(Options options, kube::Transport& transport, kube::EventRecorder& events,
           const Records& records);

  // The following are called by one thread.

  // Reports a container that exceeds its memory. It is not called again until the container has
  // stopped doing so.
  void report_overuse(const Overuse& overuse);
  // Reports a container that has processes without MPS, in the same way.
  void report_bypass(const ContainerUse& use);
  // Reports a container that uses memory of which the library in it knows nothing, in the same way.
  // `driver`: CardSource::description().
  void report_uncounted(const ContainerUse& use, const std::string& driver);
  // Reports each daemon that a process has blocked since the last call. The pod of the process is
  // known from its cgroup; a process of the node itself is only logged. `states`: of all daemons.
  void report_blocked_daemons(const std::vector<MpsState>& states);
  // Evicts the pods of these containers if Options::evict is set. It is called after each sample
  // with all that exceed their memory, since a disruption budget may allow it later.
  void evict(const std::vector<Overuse>& overuses);

  // Any thread. Records an Event on the node and on each pod that holds a card, for each card that
  // was healthy or unknown before and is not healthy now. A card whose self test runs is unknown.
  void report_unhealthy_cards(const std::vector<CardFacts>& before,
                              const std::vector<CardFacts>& now);
  // Any thread. Records an Event on the pod whose container may not start, if it is known.
  void report_refusal(const Refusal& refusal);

 private:
  const Options options_;
  kube::Transport& transport_;
  kube::EventRecorder& events_;
  const Records& records_;
  std::map<CardUuid, std::int64_t> blocked_by_;  // MpsState::blocked_by as reported
};

}  // namespace mgpu::plugin
