#include "plugin/cards/mps_daemon.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <sstream>
#include <utility>

#include "common/base/log.h"
#include "common/base/text.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin {
namespace {

using std::chrono::milliseconds;

constexpr double kPercentMax = 100;
constexpr milliseconds kStartTick{50};
constexpr char kMultiUserServer[] = "-multiuser-server";
// What NVIDIA's program prints where it finds no daemon.
constexpr char kNoDaemon[] = "Cannot find MPS control daemon process";

template <class Number>
std::optional<Number> number_of(const std::string& text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, number);
  return code == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

// A client in another pid namespace may be told as 0, of which nothing can be known.
bool may_live(std::int64_t pid) {
  return pid <= 0 || ::kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH;
}

}  // namespace

std::vector<std::int64_t> parse_pids(const std::string& answer) {
  std::vector<std::int64_t> pids;
  std::istringstream words(answer);
  for (std::string word; words >> word && pids.size() < kMpsPidsMax;) {
    if (const auto pid = number_of<std::int32_t>(word); pid && *pid >= 0) pids.push_back(*pid);
  }
  return pids;
}

bool is_percentage(const std::string& answer) {
  std::istringstream words(answer);
  std::string word;
  std::string more;
  words >> word;
  const auto number = number_of<double>(word);
  return number && *number >= 0 && *number <= kPercentMax && !(words >> more);
}

Result<void> probe_mps(const MpsOptions& options, const MpsFolders& folders) {
  const auto answer = mps_command(options.control, folders, "get_default_active_thread_percentage",
                                  options.times.command);
  if (!answer) return answer.error();
  if (is_percentage(*answer)) return {};
  return error("expected a percentage, found " + in_quotes(*answer));
}

MpsDaemon::MpsDaemon(const MpsOptions& options, const CardUuid& card)
    : options_(options),
      folders_(mps_folders(options.run_dir, card)),
      state_{.uuid = card, .running = false, .problem = "MPS is not started yet", .restarts = 0},
      wait_(options.times.restart_min) {}

void MpsDaemon::step(Time now, Wish wish) {
  switch (phase_) {
    case Phase::kNew:
      return adopt(now, wish);
    case Phase::kStarting:
      return see_it_start(now, wish);
    case Phase::kRunning:
    case Phase::kDraining:
      return look(now, wish);
    case Phase::kWaiting:
      if (wish != Wish::kRun) return enter(Phase::kStopped, now);
      if (now - since_ < wait_) return;
      ++state_.restarts;
      return start(now);
    case Phase::kQuitting:
      return see_it_quit(now, wish);
    case Phase::kStopped:
      if (wish == Wish::kRun) start(now);
      return;
  }
}

milliseconds MpsDaemon::patience() const {
  const bool soon =
      phase_ == Phase::kNew || phase_ == Phase::kStarting || phase_ == Phase::kQuitting;
  return soon ? std::min(kStartTick, options_.times.tick) : options_.times.tick;
}

// --- beginning -----------------------------------------------------------------------------------

void MpsDaemon::adopt(Time now, Wish wish) {
  process_ = known_mps_daemon(folders_);
  if (process_ || probe()) {
    log_info("MPS goes on with a daemon that runs", {{"card", state_.uuid.str()}});
    enter(Phase::kRunning, now);
    next_look_ = now;
    return look(now, wish);
  }
  if (wish == Wish::kRun) return start(now);
  enter(Phase::kStopped, now);
}

void MpsDaemon::start(Time now) {
  auto started = start_mps_daemon(options_.control, arguments(), folders_, state_.uuid);
  if (!started) return fail(started.error().message, now);
  process_ = *started;
  clients_.clear();
  state_.problem = "it is being started";
  enter(Phase::kStarting, now);
}

std::vector<std::string> MpsDaemon::arguments() const {
  std::vector<std::string> arguments = options_.arguments;
  if (single_user_) std::erase(arguments, kMultiUserServer);
  return arguments;
}

// Control programs before R555 ignore all arguments if they do not know one of them. They then act
// as a client and look for a running daemon. Tried: 535.309 and 550.163; 555.58 knows the option.
void MpsDaemon::see_it_end_at_once(Time now) {
  const std::string words = last_log_line(folders_);
  const bool looked_for_a_daemon = words.find(kNoDaemon) != std::string::npos;
  if (single_user_ || !looked_for_a_daemon) {
    return fail("its control daemon ended at once" + words, now);
  }
  log_warn("MPS of this driver serves one user at a time; programs of other users wait",
           {{"card", state_.uuid.str()}});
  single_user_ = true;
  start(now);
}

void MpsDaemon::see_it_start(Time now, Wish wish) {
  if (wish == Wish::kStop) return quit(now);
  if (!lives()) return see_it_end_at_once(now);
  const auto answered = probe();
  if (answered) {
    next_look_ = now;
    enter(Phase::kRunning, now);
    return look(now, wish);
  }
  if (now - since_ < options_.times.start) return;
  kill_mps_daemon(*process_);
  fail("its control daemon does not answer after its start: " + answered.error().message, now);
}

// --- running -------------------------------------------------------------------------------------

void MpsDaemon::look(Time now, Wish wish) {
  if (!lives()) return fail("its control daemon ended" + last_log_line(folders_), now);
  if (wish == Wish::kStop) return quit(now);
  // A card that is wanted again is so before its daemon has been asked to quit.
  const Phase phase = wish == Wish::kRun ? Phase::kRunning : Phase::kDraining;
  if (phase != phase_) {
    next_look_ = now;
    enter(phase, now);
  }
  if (now < next_look_) return;
  next_look_ = now + options_.times.probe;
  const auto answered = probe();
  const auto seen = answered ? load() : Result<Load>(answered.error());
  if (seen) return note_answer(*seen, now, wish);
  note_silence(seen.error().message, now);
}

void MpsDaemon::note_answer(const Load& load, Time now, Wish wish) {
  silent_looks_ = 0;
  clients_ = load.clients;
  if (load.fault) {
    state_.running = false;
    state_.problem = "a program's fault has stopped its server, and all programs with it";
    return quit(now);
  }
  if (wish != Wish::kRun && clients_.empty()) return quit(now);
  state_.running = true;
  state_.problem.clear();
  // What has run for long is not about to fail again and again.
  if (now - since_ >= options_.times.restart_max) wait_ = milliseconds(0);
}

void MpsDaemon::note_silence(const std::string& why, Time now) {
  state_.running = false;
  state_.problem = "its control daemon does not answer: " + why;
  // One that was never ours is known by its answers alone.
  if (!process_) return fail(state_.problem, now);
  if (++silent_looks_ < kMpsSilentProbes) return;
  if (may_have_clients()) {
    state_.problem += "; programs that use it go on, and it is restarted once they have ended";
    return;
  }
  kill_mps_daemon(*process_);
  fail(state_.problem, now);
}

// --- ending --------------------------------------------------------------------------------------

void MpsDaemon::quit(Time now) {
  static_cast<void>(command("quit"));
  state_.running = false;
  if (state_.problem.empty()) state_.problem = "it is being stopped";
  enter(Phase::kQuitting, now);
}

void MpsDaemon::see_it_quit(Time now, Wish wish) {
  const bool overdue = now - since_ >= options_.times.quit;
  if (lives() && !overdue) return;
  if (process_) kill_mps_daemon(*process_);
  if (wish == Wish::kRun) return fail(state_.problem, now);
  process_.reset();
  enter(Phase::kStopped, now);
}

void MpsDaemon::fail(const std::string& problem, Time now) {
  log_warn("MPS does not run", {{"card", state_.uuid.str()}, {"problem", problem}});
  state_.running = false;
  state_.problem = problem;
  wait_ = std::clamp(wait_ * 2, options_.times.restart_min, options_.times.restart_max);
  process_.reset();
  silent_looks_ = 0;
  enter(Phase::kWaiting, now);
}

void MpsDaemon::enter(Phase phase, Time now) {
  phase_ = phase;
  since_ = now;
}

// --- asking --------------------------------------------------------------------------------------

Result<std::string> MpsDaemon::command(const std::string& text) const {
  return mps_command(options_.control, folders_, text, options_.times.command);
}

Result<void> MpsDaemon::probe() const {
  return probe_mps(options_, folders_);
}

Result<MpsDaemon::Load> MpsDaemon::load() const {
  const auto servers = command("get_server_list");
  if (!servers) return servers.error();
  Load load;
  for (const std::int64_t server : parse_pids(*servers)) {
    const auto status = command(fmt::format("get_server_status {}", server));
    const auto clients = command(fmt::format("get_client_list {}", server));
    if (!status || !clients) return status ? clients.error() : status.error();
    load.fault = load.fault || status->find("FAULT") != std::string::npos;
    for (const std::int64_t client : parse_pids(*clients)) load.clients.push_back(client);
  }
  return load;
}

bool MpsDaemon::may_have_clients() const {
  return std::any_of(clients_.begin(), clients_.end(), may_live);
}

bool MpsDaemon::lives() const {
  return process_ ? is_alive(*process_) : probe().has_value();
}

}  // namespace mgpu::plugin
