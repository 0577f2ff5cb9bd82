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
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/contract.h"
#include "common/result.h"
#include "plugin/allocation/edits.h"
#include "plugin/limits.h"

namespace mgpu::gpu {

// How long things take; tests have no patience.
struct MpsTimes {
  std::chrono::milliseconds command = limits::kMpsCommandTimeout;
  std::chrono::milliseconds tick = limits::kMpsTick;
  std::chrono::milliseconds look = limits::kMpsLook;
  std::chrono::milliseconds start = limits::kMpsStartPatience;
  std::chrono::milliseconds quit = limits::kMpsQuitPatience;
  std::chrono::milliseconds restart_min = limits::kMpsRestartMin;
  std::chrono::milliseconds restart_max = limits::kMpsRestartMax;
};

struct MpsOptions {
  std::string control = "nvidia-cuda-mps-control";  // a path, or looked up in $PATH
  std::string run_dir;  // <run_dir>/mps/<uuid>/{pipe,log,daemon} belong to this
  // One server for the programs of all users (Volta and newer, drivers from R555 on). Without it a
  // card has one user at a time, and programs of others wait. An older driver is started without
  // the option, and the log says so.
  std::vector<std::string> arguments = {"-f", "-multiuser-server"};
  MpsTimes times;
};

struct MpsState {
  CardUuid uuid;
  bool running = false;
  std::string problem;  // one sentence while it is not
  std::int64_t restarts = 0;
};

// Any thread; calls may block up to limits::kMpsCommandTimeout.
class Mps {
 public:
  explicit Mps(MpsOptions options);
  // Leaves the daemons running.
  ~Mps();

  // Starts daemons for these cards, and goes on watching and restarting them (with growing waits);
  // daemons of other cards are drained: they quit once they have no clients.
  void follow(const std::vector<CardUuid>& cards);
  // Asks the daemon of the card whether it answers. Errors: one sentence why not.
  Result<void> ready(const CardUuid& card) const;
  std::vector<MpsState> states() const;
  // Ends all daemons: "quit", waits, then kills what is left.
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What a container with one card gets: the pipe directory of its card's daemon, its percentage
// (none at 100) and its memory as device 0's pinned limit. One with several cards gets nothing: a
// process speaks with one daemon.
allocation::Edits mps_edits(const MpsOptions& options, const allocation::Record& record);

}  // namespace mgpu::gpu
