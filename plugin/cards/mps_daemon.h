// The MPS control daemon of one card, moved on step by step; mps.h draws its states. Not safe for
// several threads; a step may block for some kMpsCommandTimeout.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "plugin/cards/limits.h"
#include "plugin/cards/mps_process.h"

namespace mgpu::plugin {

// How long things take; tests have no patience.
struct MpsTimes {
  std::chrono::milliseconds command = kMpsCommandTimeout;
  std::chrono::milliseconds tick = kMpsTick;
  std::chrono::milliseconds probe = kMpsProbePeriod;
  std::chrono::milliseconds start = kMpsStartTimeout;
  std::chrono::milliseconds quit = kMpsQuitTimeout;
  std::chrono::milliseconds restart_min = kMpsRestartMin;
  std::chrono::milliseconds restart_max = kMpsRestartMax;
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

// What `get_server_list` and `get_client_list` print: a number a line. What is none is passed over.
std::vector<std::int64_t> parse_pids(const std::string& answer);
// What `get_default_active_thread_percentage` prints: "100.0".
bool is_percentage(const std::string& answer);

class MpsDaemon {
 public:
  using Time = std::chrono::steady_clock::time_point;

  MpsDaemon(const MpsOptions& options, const CardUuid& card);

  enum class Wish { kRun, kDrain, kStop };
  void step(Time now, Wish wish);

  // Nothing of it is left.
  bool gone() const { return phase_ == Phase::kStopped; }
  // When the next step is due, at most.
  std::chrono::milliseconds patience() const;
  const MpsState& state() const { return state_; }

 private:
  enum class Phase { kNew, kStarting, kRunning, kWaiting, kDraining, kQuitting, kStopped };
  struct Load {
    std::vector<std::int64_t> clients;
    bool fault = false;
  };

  void adopt(Time now, Wish wish);
  void start(Time now);
  void see_it_start(Time now, Wish wish);
  void see_it_end_at_once(Time now);
  std::vector<std::string> arguments() const;
  void look(Time now, Wish wish);
  void note_answer(const Load& load, Time now, Wish wish);
  void note_silence(const std::string& why, Time now);
  void quit(Time now);
  void see_it_quit(Time now, Wish wish);
  // Not running; started again after a wait.
  void fail(const std::string& problem, Time now);
  void enter(Phase phase, Time now);

  Result<std::string> command(const std::string& text) const;
  Result<void> probe() const;
  Result<Load> load() const;
  // A program that was known to use the daemon may still do so.
  bool may_have_clients() const;
  bool lives() const;

  const MpsOptions& options_;
  const MpsFolders folders_;
  MpsState state_;
  Phase phase_ = Phase::kNew;
  Time since_;      // of this phase
  Time next_look_;  // of the daemon that runs
  // None: a daemon that answers and was not started by us, or none at all.
  std::optional<DaemonProcess> process_;
  std::vector<std::int64_t> clients_;  // at the last answer
  int silent_looks_ = 0;
  bool single_user_ = false;           // this driver has no server for several users
  std::chrono::milliseconds wait_{0};  // before the next start; 0: none was needed yet
};

// Whether the daemon of these folders answers. Errors: why not.
Result<void> probe_mps(const MpsOptions& options, const MpsFolders& folders);

}  // namespace mgpu::plugin
