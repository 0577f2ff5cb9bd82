// The MPS control daemon of one card as a state machine, which mps.h draws. Not safe for several
// threads. A step may block for a few kMpsCommandTimeout.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "plugin/cards/limits.h"
#include "plugin/cards/mps/compute_modes.h"
#include "plugin/cards/mps/mps_process.h"

namespace mgpu::plugin {

class MpsClientTerminator;

// Intervals and timeouts, which tests shorten.
struct MpsTimes {
  std::chrono::milliseconds command = kMpsCommandTimeout;
  std::chrono::milliseconds tick = kMpsTick;
  std::chrono::milliseconds probe = kMpsProbePeriod;
  std::chrono::milliseconds start = kMpsStartTimeout;
  std::chrono::milliseconds quit = kMpsQuitTimeout;
  std::chrono::milliseconds restart_min = kMpsRestartMin;
  std::chrono::milliseconds restart_max = kMpsRestartMax;
  std::chrono::milliseconds down_max = kMpsDownMax;
  std::chrono::milliseconds fault = kMpsFaultTimeout;
};

struct MpsOptions {
  std::string control = "nvidia-cuda-mps-control";  // a path, or a name to be found in $PATH
  std::string run_dir;  // <run_dir>/mps/<uuid>/{pipe,client,shares,log,daemon} are used
  // One server for the programs of all users (Volta and newer, drivers from R555 on). Without it a
  // card serves one user at a time, and programs of others wait. An older driver is started without
  // the option, which is logged.
  std::vector<std::string> arguments = {"-f", "-multiuser-server"};
  // Another process runs the daemons (mgpu-mps): they are found and watched, but neither started
  // nor ended.
  bool watch_only = false;
  // Restores the compute mode of a card whose daemon it has ended for good. Null: the end of a
  // daemon changes no mode. Outlives what uses these options.
  ComputeModes* modes = nullptr;
  MpsClientTerminator* terminator = nullptr;  // null: no client is ended; outlives it as well
  MpsTimes times;
};

struct MpsState {
  CardUuid uuid;
  bool running = false;
  bool v3 = false;      // containers have namespaces
  std::string problem;  // one sentence unless it is running
  // Why its server did not start when that was tried last; empty: it did, or was not tried yet.
  std::string server_problem{};
  // The process whose connection the daemon was waiting for in two failed probes in a row, until it
  // runs again; 0: there is none.
  std::int64_t blocked_by = 0;
  std::int64_t restarts = 0;
  // Since when it has not run without interruption; none while it runs.
  std::optional<std::chrono::steady_clock::time_point> down_since{};
};

// Servers of one daemon, and their clients.
struct MpsLoad {
  std::vector<std::int64_t> servers;
  std::vector<std::int64_t> clients;
  bool active = false;  // programs are served
  bool fault = false;
};

// Parses the output of `get_server_list` and `get_client_list`: a number per line. Other words are
// skipped.
std::vector<std::int64_t> parse_pids(const std::string& text);
// Whether `text` is the output of `get_default_active_thread_percentage`: "100.0".
bool is_percentage(const std::string& text);

class MpsDaemon {
 public:
  using Time = std::chrono::steady_clock::time_point;

  MpsDaemon(const MpsOptions& options, const CardUuid& card);

  enum class Target { kRunning, kDrained, kStopped };
  void step(Time now, Target target);

  // Whether the daemon has ended and is not restarted.
  bool stopped() const { return phase_ == Phase::kStopped; }
  // The longest time until the next step.
  std::chrono::milliseconds time_to_next_step() const;
  const MpsState& state() const { return state_; }

 private:
  enum class Phase { kNew, kStarting, kRunning, kWaiting, kDraining, kQuitting, kStopped };
  void adopt(Time now, Target target);
  void start(Time now);
  void find(Time now);
  void check_start(Time now, Target target);
  void check_running(Time now, Target target);
  void step_phase(Time now, Target target);
  void note_load(const MpsLoad& load, Time now, Target target);
  void start_server(const MpsLoad& load, Time now);
  void note_failed_probe(const std::string& why, Time now);
  void quit(Time now);
  void check_quit(Time now, Target target);
  // The daemon does not run; it is restarted after a wait.
  void fail(const std::string& problem, Time now);
  void log_problem(const std::string& problem);
  void restore_mode();
  void enter(Phase phase, Time now);

  Result<std::string> command(const std::string& text) const;
  Result<MpsLoad> load() const;
  bool is_running() const;

  const MpsOptions& options_;
  const MpsFolders folders_;
  MpsState state_;
  Phase phase_ = Phase::kNew;
  Time since_;       // start of the phase
  Time next_probe_;  // of a running daemon
  // Empty if the daemon does not run, or we did not start it and know it by its responses only.
  std::optional<DaemonProcess> process_;
  std::vector<std::int64_t> servers_;  // as of the last successful probe, and
  std::vector<std::int64_t> clients_;
  int failed_probes_ = 0;
  std::optional<std::int64_t> awaited_;  // in the last failed probe
  std::optional<Time> fault_since_;
  std::optional<Time> server_asked_;   // since when its server is being started
  std::string logged_;                 // the problem in the log; empty: it has run since
  bool single_user_ = false;           // the driver has no server for several users
  std::chrono::milliseconds wait_{0};  // before the next start; 0: the daemon has run for long
};

// Asks the daemon of these folders, and makes sure that containers can connect to it, see
// link_control(). In one session if its servers are `servers`, else in two. Errors: why it does not
// respond, or they cannot.
Result<MpsLoad> ask_mps(const MpsOptions& options, const MpsFolders& folders,
                        std::vector<std::int64_t> servers = {});

}  // namespace mgpu::plugin
