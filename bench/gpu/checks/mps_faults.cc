// What MPS clients and daemons that end suddenly do to others, and how many clients there may be.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/checks/checks.h"
#include "plugin/gpu/mps_daemon.h"
#include "plugin/gpu/mps_process.h"

namespace mgpu::gpu_trial {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::int64_t kMemoryMiB = 2'048;
constexpr milliseconds kProgressTimeout{10'000};
// The most that any driver serves is 60 (CUDA 13.1); one more shows the limit.
constexpr std::size_t kClientsTried = 64;
// What NVIDIA documents for Volta and newer.
constexpr std::size_t kClientsDocumented = 48;

Command client(const MpsOfCard& mps, int percent, std::vector<std::string> arguments) {
  return mps.client(share_of(percent, kMemoryMiB), std::move(arguments));
}

// The first status of a server that is asked now.
std::string server_status(const MpsOfCard& mps) {
  const auto servers = mps.ask("get_server_list");
  if (!servers) return servers.error().message;
  const auto pids = gpu::parse_pids(*servers);
  if (pids.empty()) return "no server";
  auto status = mps.ask(fmt::format("get_server_status {}", pids.front()));
  std::string text = status ? *status : status.error().message;
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

struct Kills {
  std::int64_t done = 0;
  std::int64_t neighbour_ended = 0;
  std::int64_t neighbour_stopped = 0;  // alive, without progress
  std::int64_t client_failed = 0;      // the next one that was started
  std::string first_problem;
  milliseconds longest_wait{0};  // of the neighbour for its next progress
};

void note_problem(Kills& kills, const std::string& problem) {
  if (kills.first_problem.empty()) {
    kills.first_problem = fmt::format("after {} kills: {}", kills.done, problem);
  }
}

// One client that is killed with work in flight. False where no more can be tried.
bool kill_one(const MpsOfCard& mps, Kills& kills) {
  auto victim = start_and_wait(client(mps, 40, {"busy"}));
  if (!victim) {
    ++kills.client_failed;
    note_problem(kills, "a new client fails: " + victim.error().message);
    return false;
  }
  // It is somewhere in a kernel at each of these moments.
  ::poll(nullptr, 0, static_cast<int>(kills.done % 10));
  victim->kill();
  ++kills.done;
  return true;
}

// Whether the neighbour goes on.
bool look_at_neighbour(RunningProgram& neighbour, Kills& kills) {
  neighbour.read_on();
  const auto begin = steady_clock::now();
  const auto progress = neighbour.next("progress", kProgressTimeout);
  kills.longest_wait = std::max(
      kills.longest_wait, std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin));
  if (progress) return true;
  const bool alive = neighbour.is_alive();
  ++(alive ? kills.neighbour_stopped : kills.neighbour_ended);
  note_problem(kills, "the neighbour: " + progress.error().message);
  return false;
}

Kills kill_many(const Trial& trial, const MpsOfCard& mps, RunningProgram& neighbour) {
  Kills kills;
  while (kills.done < trial.kills) {
    if (!kill_one(mps, kills) || !look_at_neighbour(neighbour, kills)) break;
  }
  return kills;
}

}  // namespace

Result<void> check_mps_kill_clients(const Trial& trial, Findings& findings) {
  const auto node = look_at_node(trial);
  if (!node) return node.error();
  const auto mps = MpsOfCard::start(trial, *node);
  if (!mps) return mps.error();
  auto neighbour = start_and_wait(client(**mps, 40, {"busy"}));
  if (!neighbour) return error("the neighbour: " + neighbour.error().message);
  const Kills kills = kill_many(trial, **mps, *neighbour);
  findings.fact("clients killed with work in flight", kills.done);
  findings.fact("longest wait of the neighbour for its next kernels", kills.longest_wait.count(),
                "ms");
  findings.fact("status of the server afterwards", server_status(**mps));
  findings.expect("the neighbour goes on", kills.neighbour_ended + kills.neighbour_stopped == 0,
                  kills.first_problem);
  findings.expect("new clients are served", kills.client_failed == 0, kills.first_problem);
  neighbour->kill();
  const auto after = run_to_end(client(**mps, 50, {"vector-add"}), kProgramTimeout);
  findings.expect("a client computes when all have ended", after.has_value(),
                  after.has_value() ? "" : after.error().message);
  return {};
}

Result<void> check_mps_restart(const Trial& trial, Findings& findings) {
  const auto node = look_at_node(trial);
  if (!node) return node.error();
  const auto mps = MpsOfCard::start(trial, *node);
  if (!mps) return mps.error();
  auto running = start_and_wait(client(**mps, 50, {"busy"}));
  if (!running) return error("the client: " + running.error().message);
  const auto daemon = gpu::known_mps_daemon((*mps)->folders());
  if (!daemon) return error("the daemon did not write down its process");
  // The daemon alone, as the kernel's memory killer would, and nothing is cleaned up.
  ::kill(daemon->pid, SIGKILL);
  const auto begin = steady_clock::now();
  while (gpu::known_mps_daemon((*mps)->folders()) == daemon) ::poll(nullptr, 0, 2);
  const auto unlimited =
      start_and_wait(client(**mps, 50, {"hold", std::to_string(kMemoryMiB * 2)}));
  findings.fact("a client that starts while there is no daemon",
                unlimited ? "runs, without its limit" : unlimited.error().message);
  running->read_on();
  const auto progress = running->next("progress", kProgressTimeout);
  findings.fact("the client that was running", progress ? "goes on" : progress.error().message);
  const auto deadline = begin + milliseconds(40'000);
  while (!(*mps)->mps().ready(node->card.uuid) && steady_clock::now() < deadline) {
    ::poll(nullptr, 0, 20);
  }
  const auto ready = (*mps)->mps().ready(node->card.uuid);
  findings.expect("a new daemon answers in the same directory", ready.has_value(),
                  ready.has_value() ? "" : ready.error().message);
  findings.fact("time until then",
                std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin).count(),
                "ms");
  if (!ready) return {};
  const auto after = run_to_end(client(**mps, 50, {"vector-add"}), kProgramTimeout);
  findings.expect("a new client computes", after.has_value(),
                  after.has_value() ? "" : after.error().message);
  return {};
}

Result<void> check_mps_many_clients(const Trial& trial, Findings& findings) {
  const auto node = look_at_node(trial);
  if (!node) return node.error();
  const auto mps = MpsOfCard::start(trial, *node);
  if (!mps) return mps.error();
  std::vector<RunningProgram> clients;
  std::string refusal;
  while (clients.size() < kClientsTried && refusal.empty()) {
    auto next = start_and_wait(client(**mps, 10, {"hold", "0"}));
    if (next) {
      clients.push_back(*std::move(next));
    } else {
      refusal = next.error().message;
    }
  }
  findings.fact("clients at once", clients.size());
  findings.fact("the next one", refusal.empty() ? "(none was refused)" : refusal);
  findings.expect("48 clients are served", clients.size() >= kClientsDocumented, refusal);
  if (clients.empty()) return {};
  clients.pop_back();
  const auto again = start_and_wait(client(**mps, 10, {"hold", "0"}));
  findings.expect("a place that became free is taken", again.has_value(),
                  again.has_value() ? "" : again.error().message);
  return {};
}

}  // namespace mgpu::gpu_trial
