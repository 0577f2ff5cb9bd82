#include "plugin/cards/mps/mps_daemon.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <sstream>
#include <utility>

#include "common/base/log.h"
#include "common/base/text.h"
#include "plugin/cards/mps/mps_v3.h"

namespace mgpu::plugin {
namespace {

using std::chrono::milliseconds;

constexpr double kThreadPercentMax = 100;
constexpr milliseconds kStartTick{50};
// The longest name of a namespace, and the bytes of a socket's address without its zero.
constexpr std::size_t kNamespaceMax = 33;
constexpr std::size_t kSocketPathMax = 107;
constexpr char kMultiUserServer[] = "-multiuser-server";
// Printed by NVIDIA's program if there is no daemon.
constexpr char kNoDaemon[] = "Cannot find MPS control daemon process";

// A client in another pid namespace may be listed as 0, and may then be running.
bool may_be_running(std::int64_t pid) {
  return pid <= 0 || ::kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH;
}

// Returns nothing unless it is the response to the questions of ask_mps().
std::optional<MpsLoad> parse_load(const std::string& response) {
  std::istringstream lines(response);
  std::string line;
  if (!std::getline(lines, line) || !is_percentage(line)) return std::nullopt;
  MpsLoad load;
  // The list of servers ends with the status of the first one.
  bool in_list = true;
  while (std::getline(lines, line)) {
    load.fault = load.fault || line.find("FAULT") != line.npos;
    // The daemon of 535 has no status.
    load.active = load.active || line == "ACTIVE" || line.starts_with("Unknown command");
    const auto pid = parse_number<std::int32_t>(line);
    in_list = in_list && pid;
    std::vector<std::int64_t>& pids = in_list ? load.servers : load.clients;
    if (pid && *pid >= 0 && pids.size() < kMpsPidsMax) pids.push_back(*pid);
  }
  return load;
}

// Containers that started under a daemon of v2 have mounted its folder, and have their limits in
// their environment. In it they get the socket of the namespace without limits.
Result<void> link_earlier_containers(const MpsFolders& folders) {
  const std::string socket = mps_namespace_socket(folders, "default");
  std::error_code absent;
  const bool has_some = std::filesystem::exists(folders.client + "/control", absent);
  if (!has_some || !std::filesystem::exists(socket, absent)) return {};
  return link_socket(socket, folders.client);
}

}  // namespace

std::vector<std::int64_t> parse_pids(const std::string& text) {
  std::vector<std::int64_t> pids;
  std::istringstream words(text);
  for (std::string word; words >> word && pids.size() < kMpsPidsMax;) {
    if (const auto pid = parse_number<std::int32_t>(word); pid && *pid >= 0) pids.push_back(*pid);
  }
  return pids;
}

bool is_percentage(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  std::string rest;
  words >> word;
  const auto number = parse_number<double>(word);
  return number && *number >= 0 && *number <= kThreadPercentMax && !(words >> rest);
}

// Each session starts a process, and costs the daemon some lines in its log.
Result<MpsLoad> ask_mps(const MpsOptions& options, const MpsFolders& folders,
                        std::vector<std::int64_t> servers) {
  for (bool again = false;; again = true) {
    std::string questions = "get_default_active_thread_percentage\nget_server_list";
    for (const std::int64_t server : servers)
      questions += fmt::format("\nget_server_status {0}\nget_client_list {0}", server);
    const auto response = mps_command(options.control, folders, questions, options.times.command);
    if (!response) return response.error();
    const auto load = parse_load(*response);
    if (!load) return error("expected a percentage, found " + in_quotes(*response));
    if (again || load->servers.empty() || load->servers == servers) {
      const auto daemon = known_mps_daemon(folders);
      const auto linked =
          daemon && daemon->v3 ? link_earlier_containers(folders) : link_control(folders);
      return linked ? Result<MpsLoad>(*load) : linked.error();
    }
    servers = load->servers;
  }
}

MpsDaemon::MpsDaemon(const MpsOptions& options, const CardUuid& card)
    : options_(options),
      folders_(mps_folders(options.run_dir, card)),
      state_{.uuid = card,
             .running = false,
             .v3 = false,
             .problem = "MPS is not started yet",
             .restarts = 0,
             .down_since = std::nullopt},
      wait_(options.times.restart_min) {}

void MpsDaemon::step(Time now, Target target) {
  const bool was_stopped = stopped();
  step_phase(now, target);
  if (stopped() && !was_stopped) restore_mode();
  if (state_.running) {
    state_.down_since.reset();
  } else if (!state_.down_since) {
    state_.down_since = now;
  }
}

void MpsDaemon::step_phase(Time now, Target target) {
  switch (phase_) {
    case Phase::kNew:
      return adopt(now, target);
    case Phase::kStarting:
      return check_start(now, target);
    case Phase::kRunning:
    case Phase::kDraining:
      return check_running(now, target);
    case Phase::kWaiting:
      if (target != Target::kRunning) return enter(Phase::kStopped, now);
      if (now - since_ < wait_) return;
      if (!options_.watch_only) ++state_.restarts;
      return start(now);
    case Phase::kQuitting:
      return check_quit(now, target);
    case Phase::kStopped:
      if (target == Target::kRunning) start(now);
      return;
  }
}

milliseconds MpsDaemon::time_to_next_step() const {
  const bool soon = phase_ == Phase::kNew || phase_ == Phase::kStarting ||
                    phase_ == Phase::kQuitting || server_asked_;
  return soon ? std::min(kStartTick, options_.times.tick) : options_.times.tick;
}

// --- starting ------------------------------------------------------------------------------------

void MpsDaemon::adopt(Time now, Target target) {
  process_ = known_mps_daemon(folders_);
  if (process_ || load()) {
    log_info("MPS daemon is already running", {{"card", state_.uuid.str()}});
    enter(Phase::kRunning, now);
    next_probe_ = now;
    return check_running(now, target);
  }
  if (target == Target::kRunning) return start(now);
  enter(Phase::kStopped, now);
}

// Looks for the daemon that another process runs.
void MpsDaemon::find(Time now) {
  process_ = known_mps_daemon(folders_);
  const auto responds = load();
  if (!responds) return fail("mgpu-mps does not run its daemon: " + responds.error().message, now);
  next_probe_ = now;
  clients_.clear();
  enter(Phase::kRunning, now);
}

void MpsDaemon::start(Time now) {
  if (options_.watch_only) return find(now);
  const auto knows_v3 = knows_mps_v3({options_.control, folders_, options_.times.command});
  if (!knows_v3) return fail(knows_v3.error().message, now);
  const bool v3 = *knows_v3;
  if (v3 &&
      mps_namespace_socket(folders_, std::string(kNamespaceMax, 'x')).size() > kSocketPathMax) {
    return fail(fmt::format("the MPS pipe directory {} is too long for the sockets of containers",
                            in_quotes(folders_.pipe)),
                now);
  }
  std::vector<std::string> arguments = v3 ? kMpsV3Arguments : options_.arguments;
  if (single_user_) std::erase(arguments, kMultiUserServer);
  auto started = start_mps_daemon(options_.control, arguments, v3, folders_, state_.uuid);
  if (!started) return fail(started.error().message, now);
  log_info("MPS daemon started", {{"card", state_.uuid.str()}, {"protocol", v3 ? "3" : "2"}});
  process_ = *started;
  clients_.clear();
  fault_since_.reset();
  state_.problem = "it is being started";
  enter(Phase::kStarting, now);
}

void MpsDaemon::check_start(Time now, Target target) {
  if (target == Target::kStopped) return quit(now);
  if (!is_running()) {
    // Control programs before R555 ignore all arguments if they do not know one of them. They then
    // act as a client and look for a running daemon. Seen with 535.309 and 550.163; 555.58 knows
    // the option.
    const std::string last_line = last_log_line(folders_);
    if (single_user_ || last_line.find(kNoDaemon) == std::string::npos) {
      return fail("its control daemon ended at once" + last_line, now);
    }
    log_warn("MPS of this driver serves one user at a time; programs of other users wait",
             {{"card", state_.uuid.str()}});
    single_user_ = true;
    return start(now);
  }
  const auto responds = load();
  if (responds) {
    next_probe_ = now;
    enter(Phase::kRunning, now);
    return check_running(now, target);
  }
  if (now - since_ < options_.times.start) return;
  kill_mps_daemon(*process_);
  fail("its control daemon does not respond after its start: " + responds.error().message, now);
}

// --- running -------------------------------------------------------------------------------------

void MpsDaemon::check_running(Time now, Target target) {
  if (!is_running()) return fail("its control daemon ended" + last_log_line(folders_), now);
  if (target == Target::kStopped) return quit(now);
  // A draining daemon that is to run again does so if "quit" has not been sent yet.
  const Phase phase = target == Target::kRunning ? Phase::kRunning : Phase::kDraining;
  if (phase != phase_) {
    next_probe_ = now;
    enter(phase, now);
  }
  if (now < next_probe_) return;
  next_probe_ = now + options_.times.probe;
  const auto seen = load();
  if (seen) return note_load(*seen, now, target);
  note_failed_probe(seen.error().message, now);
}

void MpsDaemon::note_load(const MpsLoad& load, Time now, Target target) {
  failed_probes_ = 0;
  awaited_.reset();
  servers_ = load.servers;
  clients_ = load.clients;
  if (!options_.watch_only) trim_log(folders_);
  if (load.fault) {
    state_.running = false;
    state_.problem = "a program's fault has stopped its server, and all programs with it";
    log_problem(state_.problem);
    if (!fault_since_) fault_since_ = now;
    next_probe_ = now;
    // The process that runs the daemon ends it, too.
    const bool stays = now - *fault_since_ >= options_.times.fault;
    if (stays && !options_.watch_only) quit(now);
    return;
  }
  fault_since_.reset();
  if (target != Target::kRunning && clients_.empty()) return quit(now);
  if (target == Target::kRunning && !load.active) return start_server(load, now);
  server_asked_.reset();
  state_.v3 = process_ && process_->v3;
  state_.running = true;
  state_.problem.clear();
  state_.server_problem.clear();
  state_.blocked_by = 0;
  logged_.clear();
  // After a long run the next restart does not wait.
  if (now - since_ >= options_.times.restart_max) wait_ = milliseconds(0);
}

// Without it the first program would start the server, and fail if it cannot start; and a program
// outside of MPS could have opened an exclusive card before. It changes nothing if the server is
// starting already, and where another process has started the daemon, an earlier version may not.
void MpsDaemon::start_server(const MpsLoad& load, Time now) {
  state_.running = false;
  next_probe_ = now;
  if (!server_asked_) {
    // A process that runs a daemon of v3 starts its server.
    const bool is_others = options_.watch_only && process_ && process_->v3;
    const auto asked = is_others ? Result<std::string>("") : command("start_server -uid 0");
    if (!asked) return note_failed_probe(asked.error().message, now);
    server_asked_ = now;
    state_.problem = "its server is being started";
    return;
  }
  const bool ended = load.servers.empty();
  if (!ended && (now - *server_asked_ < options_.times.start || !clients_.empty())) return;
  state_.server_problem = ended ? "its server ended at its start" + server_failure(folders_)
                                : "its server serves no programs after its start";
  if (process_ && !options_.watch_only) kill_mps_daemon(*process_);
  fail(state_.server_problem, now);
}

void MpsDaemon::note_failed_probe(const std::string& why, Time now) {
  state_.running = false;
  state_.problem = "its control daemon does not respond: " + why;
  // A connection that sends nothing blocks the daemon. Every user of a container can make one.
  const auto before = process_ ? std::exchange(awaited_, awaited_process(*process_)) : std::nullopt;
  if (awaited_ && awaited_ == before) state_.blocked_by = *awaited_;
  // A daemon whose process is not known is known by its responses only.
  if (!process_) return fail(state_.problem, now);
  if (++failed_probes_ < kMpsFailedProbes) return;
  if (std::ranges::any_of(clients_, may_be_running)) {
    state_.problem += "; programs that use it go on, and it is restarted once they have ended";
    return;
  }
  if (!options_.watch_only) kill_mps_daemon(*process_);
  fail(state_.problem, now);
}

// --- ending --------------------------------------------------------------------------------------

void MpsDaemon::quit(Time now) {
  state_.running = false;
  if (options_.watch_only) return enter(Phase::kStopped, now);
  static_cast<void>(command("quit"));
  if (state_.problem.empty()) state_.problem = "it is being stopped";
  enter(Phase::kQuitting, now);
}

void MpsDaemon::check_quit(Time now, Target target) {
  const bool overdue = now - since_ >= options_.times.quit;
  if (is_running() && !overdue) return;
  if (process_) kill_mps_daemon(*process_);
  if (target == Target::kRunning) return fail(state_.problem, now);
  process_.reset();
  enter(Phase::kStopped, now);
}

// Without a daemon no program of MPS can use the card, and without the mode others can.
void MpsDaemon::restore_mode() {
  if (options_.watch_only || options_.modes == nullptr) return;
  if (const auto restored = options_.modes->restore(state_.uuid); !restored) {
    log_warn("the compute mode of a card is not restored",
             {{"card", state_.uuid.str()}, {"problem", restored.error().message}});
  }
}

// A daemon that is only watched fails at every attempt to find it.
void MpsDaemon::log_problem(const std::string& problem) {
  if (std::exchange(logged_, problem) == problem) return;
  log_warn("MPS does not run", {{"card", state_.uuid.str()}, {"problem", problem}});
}

void MpsDaemon::fail(const std::string& problem, Time now) {
  log_problem(problem);
  state_.running = false;
  state_.problem = problem;
  wait_ = options_.watch_only
              ? options_.times.probe
              : std::clamp(wait_ * 2, options_.times.restart_min, options_.times.restart_max);
  process_.reset();
  servers_.clear();
  failed_probes_ = 0;
  fault_since_.reset();
  server_asked_.reset();
  enter(Phase::kWaiting, now);
}

void MpsDaemon::enter(Phase phase, Time now) {
  phase_ = phase;
  since_ = now;
}

// --- commands ------------------------------------------------------------------------------------

Result<std::string> MpsDaemon::command(const std::string& text) const {
  return mps_command(options_.control, folders_, text, options_.times.command);
}

Result<MpsLoad> MpsDaemon::load() const {
  return ask_mps(options_, folders_, servers_);
}

bool MpsDaemon::is_running() const {
  return process_ ? is_alive(*process_) : load().has_value();
}

}  // namespace mgpu::plugin
