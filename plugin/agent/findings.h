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
#include "plugin/cards/mps.h"
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

  // One thread. Each that was not found before.
  void report_overuse(const Overuse& overuse);
  void report_bypass(const ContainerUse& use);
  // All states. The pod of a process is known from its cgroup; a process of the node itself is only
  // logged.
  void report_blocked_daemons(const std::vector<MpsState>& states);
  // All containers that exceed their memory. Evicts their pods, if it is to; again after each
  // sample, since a disruption budget may allow it later.
  void evict(const std::vector<Overuse>& overuses);

  // Any thread. Records an Event on the node and on each pod that holds a card which was healthy.
  void report_unhealthy_cards(const std::vector<CardFacts>& before,
                              const std::vector<CardFacts>& now);
  void report_refusal(const Refusal& refusal);

 private:
  const Options options_;
  kube::Transport& transport_;
  kube::EventRecorder& events_;
  const Records& records_;
  std::map<CardUuid, std::int64_t> blocked_by_;  // MpsState::blocked_by as reported
};

}  // namespace mgpu::plugin
