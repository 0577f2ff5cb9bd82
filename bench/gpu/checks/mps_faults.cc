// Effects of MPS clients and daemons that end suddenly, and the maximum number of clients.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/checks/checks.h"
#include "plugin/cards/mps/mps_clients.h"
#include "plugin/cards/mps/mps_process.h"

namespace mgpu::gpu_trial {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::int64_t kClientMiB = 2'048;
constexpr milliseconds kProgressTimeout{10'000};
// "Typically temporary" (NVIDIA's MPS documentation, troubleshooting): the server recovers, or
// cleans up after a client.
constexpr char kNotReady[] = "CUDA_ERROR_MPS_SERVER_NOT_READY";
constexpr milliseconds kNotReadyTimeout{10'000};
// Time that is reserved for the facts after a loop.
constexpr milliseconds kTimeForFacts{45'000};
// Drivers serve at most 60 clients (CUDA 13.1), so that this number reaches the limit.
constexpr std::size_t kClientsTried = 64;
// The documented number for Volta and newer.
constexpr std::size_t kClientsDocumented = 48;

Command client(const CardWithMps& card, int percent, std::vector<std::string> arguments) {
  return card.mps->client(share_of(percent, kClientMiB), std::move(arguments));
}

// Starts a client, and tries again while the server is not ready. Counts `retries`.
Result<RunningProgram> start_when_ready(const Command& command, int& retries) {
  const auto deadline = steady_clock::now() + kNotReadyTimeout;
  while (true) {
    auto program = start_and_wait(command);
    const bool temporary = !program && program.error().message.find(kNotReady) != std::string::npos;
    if (!temporary || steady_clock::now() >= deadline) return program;
    ++retries;
    ::poll(nullptr, 0, 200);
  }
}

// Facts about the restarts of the daemon by the device plugin's code.
void report_supervision(const CardWithMps& card, Findings& findings) {
  findings.fact("status of the server afterwards", card.mps->server_status());
  for (const plugin::MpsState& state : card.mps->mps().states()) {
    findings.fact("restarts of the daemon by the device plugin", state.restarts);
    if (!state.running) findings.fact("problem that the device plugin sees", state.problem);
  }
}

// --- clients that are killed ---------------------------------------------------------------------

struct Kills {
  std::int64_t done = 0;
  int retries = 0;
  std::int64_t neighbours_ended = 0;
  std::string neighbour_error;  // of the first that ended
  std::string client_problem;   // empty: each new one was served
};

// Starts a client that computes. Nothing if it is not served; then `kills` has the reason.
std::optional<RunningProgram> start_busy(const CardWithMps& card, Kills& kills) {
  auto program = start_when_ready(client(card, 40, {"busy"}), kills.retries);
  if (program) return *std::move(program);
  kills.client_problem = fmt::format("after {} kills: {}", kills.done, program.error().message);
  return std::nullopt;
}

// Kills one client with work in flight. Returns false if no more can be tried.
bool kill_one(const CardWithMps& card, Kills& kills) {
  auto victim = start_busy(card, kills);
  if (!victim) return false;
  // A kernel runs at any time between them.
  ::poll(nullptr, 0, static_cast<int>(kills.done % 10));
  victim->kill();
  ++kills.done;
  return true;
}

// Returns the error of the neighbour, or nothing if it makes progress.
std::optional<std::string> error_of(RunningProgram& neighbour) {
  neighbour.read_available();
  const auto progress = neighbour.next("progress", kProgressTimeout);
  if (progress) return std::nullopt;
  return progress.error().message;
}

Kills kill_many(const Trial& trial, const CardWithMps& card, Findings& findings) {
  Kills kills;
  auto neighbour = start_busy(card, kills);
  while (neighbour && kills.done < trial.kills && findings.time_left() > kTimeForFacts) {
    if (!kill_one(card, kills)) break;
    if (const auto failure = error_of(*neighbour)) {
      if (kills.neighbours_ended++ == 0) kills.neighbour_error = *failure;
      neighbour.reset();
      if (auto next = start_busy(card, kills)) neighbour.emplace(*std::move(next));
    }
    findings.fact("clients killed with work in flight", kills.done);
    findings.fact("neighbours that ended with them", kills.neighbours_ended);
  }
  if (neighbour) static_cast<void>(neighbour->finish(kProgressTimeout));
  return kills;
}

// --- clients that the daemon ends ----------------------------------------------------------------

// Chooses one client, as the device plugin does before the container of a deleted pod is killed.
class OneClientTerminator : public plugin::MpsClientTerminator {
 public:
  void end(const CardUuid& card, pid_t pid) {
    card_ = card;
    pid_ = pid;
  }
  Due due() override {
    if (pid_ == 0) return {};
    return {.cards = {card_}, .next = std::nullopt};
  }
  std::optional<PodUid> pod_of(const CardUuid&, std::int64_t pid) override {
    return pid == pid_ ? std::optional(PodUid("trial")) : std::nullopt;
  }

 private:
  CardUuid card_;  // written before pid_, and read after it
  std::atomic<pid_t> pid_{0};
};

// The error of a program that ends by itself. Error: it does not end in time.
Result<std::string> wait_for_failure(RunningProgram& program) {
  const auto deadline = steady_clock::now() + kProgressTimeout;
  while (steady_clock::now() < deadline) {
    const auto progress = program.next("progress", kProgressTimeout);
    if (!progress && !program.is_alive()) return progress.error().message;
  }
  return error("it did not end in time");
}

// Whether the daemon soon does not list the client any more.
bool has_left(const CardWithMps& card, pid_t pid) {
  const auto deadline = steady_clock::now() + kProgressTimeout;
  while (lists_client(card, pid)) {
    if (steady_clock::now() >= deadline) return false;
    ::poll(nullptr, 0, 100);
  }
  return true;
}

// --- a killed daemon -----------------------------------------------------------------------------

// Kills only the daemon, like the kernel's OOM killer, and cleans nothing up. Errors: there is no
// daemon, or it does not end.
Result<void> kill_daemon(const CardWithMps& card) {
  const auto daemon = plugin::known_mps_daemon(card.mps->folders());
  if (!daemon) return error("the daemon's process is not known");
  ::kill(daemon->pid, SIGKILL);
  const auto deadline = steady_clock::now() + kProgressTimeout;
  while (plugin::known_mps_daemon(card.mps->folders()) == daemon) {
    if (steady_clock::now() > deadline) return error("the daemon does not end");
    ::poll(nullptr, 0, 2);
  }
  return {};
}

std::string try_without_daemon(const Trial& trial, const CardWithMps& card, Container container) {
  container.command = {kProgramInContainer, "hold", std::to_string(kClientMiB * 2)};
  const auto program = start_and_wait(in_container(trial, container));
  if (plugin::known_mps_daemon(card.mps->folders())) return "(a new daemon was already running)";
  return program ? "runs, without its limit" : program.error().message;
}

// Reports whether the device plugin's code has started a new daemon that responds, and after what
// time.
bool wait_for_new_daemon(const CardWithMps& card, Findings& findings) {
  const auto begin = steady_clock::now();
  const CardUuid& uuid = card.node.card.uuid;
  auto ready = card.mps->mps().ready(uuid);
  while (!ready && steady_clock::now() - begin < milliseconds(30'000)) {
    ::poll(nullptr, 0, 20);
    ready = card.mps->mps().ready(uuid);
  }
  const auto time = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
  findings.fact("further time until a new daemon answered", time.count(), "ms");
  expect_success(findings, "a new daemon answers in the same directory", ready);
  return ready.has_value();
}

}  // namespace

// NVIDIA does not promise that a neighbour survives: on hardware most do not.
Result<void> check_mps_kill_clients(const Trial& trial, CardWithMps& card, Findings& findings) {
  const Kills kills = kill_many(trial, card, findings);
  if (kills.neighbours_ended > 0) {
    findings.fact("error of the first neighbour that ended", kills.neighbour_error);
  }
  findings.fact("starts that the server was not ready for", kills.retries);
  findings.expect("all of them could be tried in time",
                  kills.done == trial.kills || !kills.client_problem.empty(),
                  fmt::format("{} of {}", kills.done, trial.kills));
  findings.expect("new clients are served", kills.client_problem.empty(), kills.client_problem);
  report_supervision(card, findings);
  const auto after = run_to_end(client(card, 50, {"vector-add"}), kProgramTimeout);
  expect_client(findings, "a client computes when all have ended", after);
  return {};
}

Result<void> check_mps_end_client(const Trial& trial, Findings& findings) {
  if (!has_mps(trial, findings) || !has_containers(trial, findings)) return {};
  OneClientTerminator terminator;
  const auto card = start_card_with_mps(trial, {}, &terminator);
  if (!card) return card.error();
  auto neighbour = start_and_wait(client(**card, 40, {"busy"}));
  expect_client(findings, "the neighbour runs", neighbour);
  // Containers have process IDs of their own.
  auto ended = start_container(trial, (*card)->mps->container(share_of(40, kClientMiB), true,
                                                              {kProgramInContainer, "busy"}));
  expect_client(findings, "the client that is to be ended runs", ended);
  if (!neighbour || !ended) return {};
  const pid_t pid = pid_of_container(trial);
  findings.expect("the daemon lists the client", lists_client(**card, pid), "it does not");
  terminator.end((*card)->node.card.uuid, pid);
  const auto failure = wait_for_failure(*ended);
  expect_success(findings, "the client that is ended gets an error", failure);
  if (failure) findings.fact("error of the client that was ended", *failure);
  findings.expect("the daemon does not list it any more", has_left(**card, pid), "it does");
  const auto failure_beside = error_of(*neighbour);
  findings.expect("the neighbour goes on", !failure_beside, failure_beside.value_or(""));
  findings.fact("longest pause of the neighbour between its kernels",
                number_of(*neighbour, "gap_ms"), "ms");
  const auto after = run_to_end(client(**card, 40, {"vector-add"}), kProgramTimeout);
  expect_client(findings, "a new client computes", after);
  report_supervision(**card, findings);
  return {};
}

Result<void> check_mps_restart(const Trial& trial, Findings& findings) {
  if (!has_mps(trial, findings) || !has_containers(trial, findings)) return {};
  // Time in which a program starts while there is no daemon.
  plugin::MpsTimes times;
  times.restart_min = milliseconds(5'000);
  const auto card = start_card_with_mps(trial, times);
  if (!card) return card.error();
  // All programs are in one container, which has the pipe directory of the first daemon.
  Container container = (*card)->mps->container(share_of(50, kClientMiB), true, kIdleInContainer);
  const auto idle = start_container(trial, container);
  if (!idle) return idle.error();
  container.command = {kProgramInContainer, "busy"};
  auto running = start_and_wait(in_container(trial, container));
  expect_client(findings, "a client runs", running);
  if (!running) return {};
  if (auto killed = kill_daemon(**card); !killed) return killed;
  findings.fact("a client that starts while there is no daemon",
                try_without_daemon(trial, **card, container));
  running->read_available();
  const auto progress = running->next("progress", kProgressTimeout);
  const std::string end = running->value("error");
  findings.fact("the client that was running", progress      ? "goes on"
                                               : end.empty() ? progress.error().message
                                                             : end);
  if (!wait_for_new_daemon(**card, findings)) return {};
  container.command = {kProgramInContainer, "vector-add"};
  const auto again = run_to_end(in_container(trial, container), kProgramTimeout);
  expect_client(findings, "a new program of the same container is a client of the new daemon",
                again);
  const auto after = run_to_end(client(**card, 50, {"vector-add"}), kProgramTimeout);
  expect_client(findings, "a new client computes", after);
  report_supervision(**card, findings);
  return {};
}

Result<void> check_mps_many_clients(const Trial&, CardWithMps& card, Findings& findings) {
  std::vector<RunningProgram> clients;
  std::string refusal;
  int retries = 0;
  while (clients.size() < kClientsTried && refusal.empty() &&
         findings.time_left() > kTimeForFacts) {
    auto next = start_when_ready(client(card, 10, {"hold", "0"}), retries);
    if (!next) {
      refusal = next.error().message;
    } else if (next->value("mps") == "0") {
      refusal = "it ran outside of MPS";
    } else {
      clients.push_back(*std::move(next));
    }
    findings.fact("clients at once", clients.size());
  }
  findings.fact("error of the next client", refusal.empty() ? "(none was refused)" : refusal);
  findings.expect("48 clients are served", clients.size() >= kClientsDocumented, refusal);
  if (clients.empty() || refusal.empty()) return {};
  static_cast<void>(clients.back().finish(kProgressTimeout));
  auto again = start_when_ready(client(card, 10, {"hold", "0"}), retries);
  expect_client(findings, "a new client is served after one has ended", again);
  findings.fact("starts that the server was not ready for", retries);
  end_all(clients);
  return {};
}

}  // namespace mgpu::gpu_trial
