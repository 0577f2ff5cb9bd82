// NVIDIA MPS with one control daemon per card (docs.nvidia.com/deploy/mps), which enforces a
// container's share of SMs and memory. Each process of a container is limited separately, and a
// fault of one client ends all clients of that card. Drivers have a second protocol from R615 on
// (mps_v3.h), which is used where NVIDIA's program knows it.
//
//   New --responds--> Running --ends--> Waiting --> Starting --responds--> Running
//    |                  |   ^
//    |                  |   +--its card is set again before it has quit
//    +--no daemon--> Starting, or Stopped if its card is not set
//                       |
//                       +--FAULT for kMpsFaultTimeout--> Quitting --> Waiting
//                       +--failed probes, no clients--> killed --> Waiting
//                       +--its server does not start--> killed --> Waiting
//                       +--its card is not set--> Draining --no clients--> Quitting --> Stopped
//   Waiting --its card is not set--> Stopped --its card is set--> Starting
//
// The server of a card is started with its daemon. Until it serves programs, and during a FAULT,
// the daemon stays in Running, and MpsState::running is false. With MpsOptions::watch_only,
// Starting is one probe (to Running or Waiting), and no daemon gets "quit".
//
// ~Mps() leaves the daemons running, so that an upgrade affects no container: a new process finds
// them by their pipe directories. stop() ends them. Where systemd or a container runtime ends all
// processes of a service together, they belong to mgpu-mps, which is a service of its own and ends
// them at SIGTERM.
//
// Clients whose containers are about to be killed are ended on a thread of their own, so that a
// daemon that does not respond delays none of other cards.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "plugin/allocation/edits.h"
#include "plugin/cards/card_source.h"
#include "plugin/cards/mps/mps_clients.h"
#include "plugin/cards/mps/mps_daemon.h"
#include "plugin/cards/mps/mps_shares.h"

namespace mgpu::plugin {

// Any thread. Calls may block for up to kMpsCommandTimeout, and prepare() also while keep_shares()
// does.
class Mps {
 public:
  explicit Mps(MpsOptions options);
  // Leaves the daemons running.
  ~Mps();

  // Starts daemons for these cards, and restarts them (with growing waits) when they end. Daemons
  // of other cards are drained: they quit once they have no clients.
  void set_cards(const std::vector<CardUuid>& cards);
  // The edits that enforce a part of one card (mps_edits()). Empty for 100 % of a card, which no
  // other container uses, and for several cards, because a process can use one daemon only. After
  // prepare() they name what it has made.
  Edits edits(const Record& record) const;
  // Probes the daemon of the card. Errors: one sentence why it does not run.
  Result<void> ready(const CardUuid& card) const;
  // Probes the daemon, and makes the namespace of the container (make_mps_share()). REQUIRES: the
  // container has a part of one card, and no program of it runs. Errors: it must not start.
  Result<void> prepare(const Record& record) const;
  // keep_mps_shares() of the cards whose daemons run. Blocks for up to twice kMpsCommandTimeout.
  void keep_shares(const std::function<std::vector<Record>()>& records) const;
  std::vector<MpsState> states() const;
  // Why no pod should be placed on the card: MPS cannot limit its programs, or its daemon has not
  // run for kMpsDownMax. Empty: there is no reason.
  std::string problem_of(const FoundCard& card) const;
  // Ends all daemons: sends "quit", waits, and kills those that are left.
  void stop();

 private:
  void run();
  void run_clients();
  // Empty once this object is being destroyed.
  std::set<CardUuid> running() const;

  const MpsOptions options_;
  // Used by the thread alone. `states_` is a copy that other threads read.
  std::map<CardUuid, MpsDaemon> daemons_;
  // Used by its thread alone; none without MpsOptions::terminator.
  std::optional<MpsClients> clients_;

  mutable Mutex shares_;  // is taken before `mutex_`
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::set<CardUuid> cards_ MGPU_GUARDED_BY(mutex_);
  MpsDaemon::Target target_of_others_ MGPU_GUARDED_BY(mutex_) = MpsDaemon::Target::kDrained;
  std::map<CardUuid, MpsState> states_ MGPU_GUARDED_BY(mutex_);
  bool step_due_ MGPU_GUARDED_BY(mutex_) = false;
  bool idle_ MGPU_GUARDED_BY(mutex_) = false;  // no daemon runs, and none is to run
  bool ending_ MGPU_GUARDED_BY(mutex_) = false;
  std::thread thread_;
  std::thread clients_thread_;
};

}  // namespace mgpu::plugin
