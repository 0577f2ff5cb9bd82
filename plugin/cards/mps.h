// NVIDIA MPS with one control daemon per card (docs.nvidia.com/deploy/mps), which enforces a
// container's share of SMs and memory. Each process of a container is limited separately, and a
// fault of one client ends all clients of that card.
//
//   New --responds--> Running --ends--> Waiting --> Starting --responds--> Running
//    |                  |   ^
//    |                  |   +--its card is set again before it has quit
//    +--no daemon--> Starting, or Stopped if its card is not set
//                       |
//                       +--FAULT that stays, failed probes without clients--> Quitting --> Waiting
//                       +--its card is not set--> Draining --no clients--> Quitting --> Stopped
//
// Daemons outlive the process that started them, so that an upgrade affects no container: a new
// process finds them by their pipe directories. Where systemd or a container runtime ends all
// processes of a service together, they belong to mgpu-mps, which is a service of its own, and the
// plugin only watches them (MpsOptions::watch_only).
#pragma once

#include <map>
#include <set>
#include <thread>
#include <vector>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "plugin/allocation/edits.h"
#include "plugin/cards/card_source.h"
#include "plugin/cards/mps_daemon.h"

namespace mgpu::plugin {

// Any thread. Calls may block for up to kMpsCommandTimeout.
class Mps {
 public:
  explicit Mps(MpsOptions options);
  // Leaves the daemons running.
  ~Mps();

  // Starts daemons for these cards, and restarts them (with growing waits) when they end. Daemons
  // of other cards are drained: they quit once they have no clients.
  void set_cards(const std::vector<CardUuid>& cards);
  // mps_edits() of a container with a part of one card, and none for others: with 100 % of a card
  // there is nobody to limit it for, and the limits of MPS (48 clients, a fault of one ends all)
  // would be for nothing; and a process can use one daemon only. Errors: the daemon of its card
  // does not respond now; one sentence.
  Result<Edits> edits(const Record& record) const;
  // Probes the daemon of the card. Errors: one sentence why it does not run.
  Result<void> ready(const CardUuid& card) const;
  std::vector<MpsState> states() const;
  // Why no pod should be placed on the card: MPS cannot limit its programs, or its daemon has not
  // run for kMpsSickAfter. Empty: there is no reason.
  std::string problem_of(const FoundCard& card) const;
  // Ends all daemons: sends "quit", waits, and kills those that are left.
  void stop();

 private:
  void run();

  const MpsOptions options_;
  // Used by the thread alone. `states_` is a copy of what others may know of them.
  std::map<CardUuid, MpsDaemon> daemons_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::set<CardUuid> cards_ MGPU_GUARDED_BY(mutex_);
  MpsDaemon::Target target_of_others_ MGPU_GUARDED_BY(mutex_) = MpsDaemon::Target::kDrained;
  std::map<CardUuid, MpsState> states_ MGPU_GUARDED_BY(mutex_);
  bool step_due_ MGPU_GUARDED_BY(mutex_) = false;
  bool idle_ MGPU_GUARDED_BY(mutex_) = false;  // no daemon runs, and none is to run
  bool ending_ MGPU_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// The edits of a container with one card: the pipe directory of its card's daemon, its percentage
// (unless it is 100), and its memory as the pinned limit of device 0. Empty for a container with
// several cards: whole cards need no limit, and a process can use one daemon only.
Edits mps_edits(const MpsOptions& options, const Record& record);

}  // namespace mgpu::plugin
