// NVIDIA MPS: one control daemon per card (docs.nvidia.com/deploy/mps), which enforces a
// container's share of SMs and its memory. It limits each process of a container on its own, and a
// fault of one client ends all clients of that card.
//
//   New --answers--> Running --dies--> Waiting --> Starting --answers--> Running
//    |                 |   ^
//    |                 |   +--"follow" again, before it has quit
//    +--is not there--> Starting, or Stopped where nobody wants it
//                      |
//                      +--FAULT, silent without clients--> Quitting --> Waiting
//                      +--not followed any more--> Draining --no clients--> Quitting --> Stopped
//
// Daemons outlive the plugin: a new process finds them by their pipe directories and goes on with
// them, so that an upgrade hurts no container.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "plugin/allocation/edits.h"
#include "plugin/cards/limits.h"
#include "plugin/cards/mps_daemon.h"

namespace mgpu::plugin {

// Any thread; calls may block up to kMpsCommandTimeout.
class Mps {
 public:
  explicit Mps(MpsOptions options);
  // Leaves the daemons running.
  ~Mps();

  // Starts daemons for these cards, and goes on watching and restarting them (with growing waits);
  // daemons of other cards are drained: they quit once they have no clients.
  void set_cards(const std::vector<CardUuid>& cards);
  // What a container gets to keep to its share, mps_edits(). Errors: the daemon of its card does
  // not run; one sentence.
  Result<Edits> edits(const Record& record) const;
  // Asks the daemon of the card whether it answers. Errors: one sentence why not.
  Result<void> ready(const CardUuid& card) const;
  std::vector<MpsState> states() const;
  // Ends all daemons: "quit", waits, then kills what is left.
  void stop();

 private:
  void watch();
  void step_all();
  std::chrono::milliseconds time_to_next_step() const;

  const MpsOptions options_;
  // Of the thread alone, which moves all daemons on. What others may know of them is copied into
  // `seen_`.
  std::map<CardUuid, MpsDaemon> daemons_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::set<CardUuid> wanted_ MGPU_GUARDED_BY(mutex_);
  std::map<CardUuid, MpsState> seen_ MGPU_GUARDED_BY(mutex_);
  MpsDaemon::Wish unwanted_ MGPU_GUARDED_BY(mutex_) =
      MpsDaemon::Wish::kDrain;  // what becomes of the others
  bool news_ MGPU_GUARDED_BY(mutex_) = false;
  bool idle_ MGPU_GUARDED_BY(mutex_) = false;  // nothing runs, and nothing is wanted
  bool ending_ MGPU_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// What a container with one card gets: the pipe directory of its card's daemon, its percentage
// (none at 100) and its memory as device 0's pinned limit. One with several cards gets nothing: a
// process speaks with one daemon.
Edits mps_edits(const MpsOptions& options, const Record& record);

}  // namespace mgpu::plugin
