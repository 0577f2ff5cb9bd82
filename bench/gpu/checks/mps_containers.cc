// Containers that are clients of MPS: their limits, how they can leave them, and what they can do
// to the daemon.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "bench/gpu/checks/checks.h"
#include "common/base/process.h"

namespace mgpu::gpu_trial {
namespace {

using std::chrono::milliseconds;

constexpr char kControlInContainer[] = "/usr/bin/nvidia-cuda-mps-control";
constexpr char kPipeVariable[] = "CUDA_MPS_PIPE_DIRECTORY";
constexpr char kLimitVariable[] = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";
constexpr std::int64_t kSmallLimitMiB = 2'048;
constexpr std::int64_t kBeyondSmallLimitMiB = 1'024;
constexpr std::size_t kAnswerBytesMax = 64 * 1024;

std::string one_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

const char* pipe_text(bool read_only) {
  return read_only ? "read-only" : "read-write";
}

// --- limits --------------------------------------------------------------------------------------

// Measures what a container can allocate. Error: the program fails.
Result<RunningProgram> run_largest(const Trial& trial, const Container& container,
                                   const std::string& which, Findings& findings) {
  auto program = run_to_end(enter_command(trial, container), kProgramTimeout);
  findings.fact("largest allocation " + which,
                program ? number_of(*program, "largest_mib") : Json(program.error().message),
                program ? "MiB" : "");
  return program;
}

// Tries a failing container again with the node's /dev/shm, or with its namespaces.
void find_what_is_missing(const Trial& trial, Container container, Findings& findings) {
  container.more_mounts = {{"/dev/shm", "/dev/shm", false}};
  static_cast<void>(run_largest(trial, container, "with the node's /dev/shm", findings));
  container.more_mounts.clear();
  container.own_namespaces = false;
  static_cast<void>(
      run_largest(trial, container, "in the node's pid and IPC namespaces", findings));
}

// What a program of the container with these variables unset comes to, if it allocates more than
// its limit.
std::string allocate_without(RunningProgram& session, const std::string& name,
                             const std::string& variable) {
  const std::string unset = variable.empty() ? "" : "-u " + variable + " ";
  const auto started = start_in_session(
      session, name, unset + "hold " + std::to_string(kSmallLimitMiB + kBeyondSmallLimitMiB));
  if (!started) return "refused: " + started.error().message;
  return session.value(name + "_mps") == "0" ? "allocates beyond its limit, outside of MPS"
                                             : "allocates beyond its limit";
}

// --- the pipe directory --------------------------------------------------------------------------

// The attempts of one user to change the sockets. Returns those that succeeded. Error: there were
// none.
Result<std::string> try_to_replace(const Trial& trial, const CardWithMps& card, bool read_only,
                                   int user, Findings& findings) {
  Container container = card.mps->container(share_of(30, kSmallLimitMiB), read_only, {});
  container.user = user;
  container.command = {kProgramInContainer, "replace",
                       container.edits.environment[kPipeVariable] + "/control"};
  const auto program = run_to_end(enter_command(trial, container), kProgramTimeout);
  const std::string who = fmt::format("user {}, pipe {}: ", user, pipe_text(read_only));
  if (!program) return error(who + program.error().message);
  std::string done;
  const std::pair<const char*, const char*> attempts[] = {{"create", "making a file"},
                                                          {"rename", "replacing \"control\""},
                                                          {"unlink", "removing \"control\""}};
  for (const auto& [name, what] : attempts) {
    findings.fact(who + what, program->value(name));
    if (program->value(name).empty()) return error(who + "it did not try");
    if (program->value(name) == "done") done += (done.empty() ? who : ", ") + what;
  }
  return done;
}

// A container that writes to what it finds in its folder, and connects and says nothing.
void try_silence(const Trial& trial, const CardWithMps& card, int user, Findings& findings) {
  Container container = card.mps->container(share_of(30, kSmallLimitMiB), true, {});
  container.user = user;
  container.command = {kProgramInContainer, "connect", container.edits.environment[kPipeVariable]};
  auto program = start_and_wait(enter_command(trial, container));
  const std::string who = fmt::format("user {} of a container: ", user);
  findings.expect(who + "reaches the socket for clients alone",
                  program && program->value("entries") == "control",
                  program ? program->value("entries") : program.error().message);
  if (!program) return;
  findings.fact(who + "files of its folder", program->value("entries"));
  findings.fact(who + "writing to a FIFO", program->value("fifo"));
  findings.fact(who + "connections", number_of(*program, "connected"));
  findings.fact(who + "answer of the daemon meanwhile",
                card.mps->send_command("get_default_active_thread_percentage"));
  static_cast<void>(program->finish(kProgramTimeout));
}

}  // namespace

Result<RunningProgram> start_session(const Trial& trial, const CardWithMps& card, Share share) {
  return start_and_wait(
      enter_command(trial, card.mps->container(share, true, {kProgramInContainer, "session"})));
}

Result<void> check_mps_container(const Trial& trial, CardWithMps& card, Findings& findings) {
  const std::vector<std::string> command = {kProgramInContainer, "largest",
                                            std::to_string(kSmallLimitMiB + kBeyondSmallLimitMiB)};
  for (const bool read_only : {false, true}) {
    for (const int user : {0, kOtherUser}) {
      Container container = card.mps->container(share_of(30, kSmallLimitMiB), read_only, command);
      container.user = user;
      const std::string which = fmt::format("as user {}, pipe {}", user, pipe_text(read_only));
      const auto program = run_largest(trial, container, which, findings);
      expect_limit(findings, "the limit holds " + which, kSmallLimitMiB, program);
      const double most = program ? most_allocated(*program) : 0;
      const bool held = most > 0 && most <= kSmallLimitMiB;
      if (!held && user == 0) find_what_is_missing(trial, container, findings);
    }
  }
  return {};
}

Result<void> check_mps_two_processes(const Trial& trial, CardWithMps& card, Findings& findings) {
  constexpr std::int64_t kLimitMiB = 8'192;
  const std::int64_t limit = std::min(kLimitMiB, card.node.card.memory.value() / 4);
  const std::string hold = "hold " + std::to_string(limit * 5 / 8);
  findings.fact("limit", limit, "MiB");
  findings.fact("held by each of two processes", limit * 5 / 8, "MiB");
  auto session = start_session(trial, card, share_of(50, limit));
  if (!session) return session.error();
  const auto first = start_in_session(*session, "first", hold);
  expect_client(findings, "the first process of the container runs", *session, "first", first);
  if (!first) return {};
  const auto second = start_in_session(*session, "second", hold);
  findings.fact("second process", second ? "its allocation succeeded" : second.error().message);
  const bool refused = !second && second.error().message.find("OUT_OF_MEMORY") != std::string::npos;
  const char* const counts = second    ? "each process"
                             : refused ? "all processes together"
                                       : "(unknown)";
  findings.fact("the limit counts for", counts);
  // deploy/NODE.md
  findings.expect("the limit counts for each process, as documented", second.has_value(),
                  fmt::format("the limit counts for {}", counts));
  return {};
}

Result<void> check_mps_bypass(const Trial& trial, CardWithMps& card, Findings& findings) {
  auto session = start_session(trial, card, share_of(30, kSmallLimitMiB));
  if (!session) return session.error();
  const std::string limited = allocate_without(*session, "limited", "");
  findings.fact("all variables set", limited);
  findings.expect("a program with all variables stays within its limit",
                  limited.find("OUT_OF_MEMORY") != std::string::npos, limited);
  findings.fact(fmt::format("without {}", kPipeVariable),
                allocate_without(*session, "pipe", kPipeVariable));
  findings.fact(fmt::format("without {}", kLimitVariable),
                allocate_without(*session, "limit", kLimitVariable));
  return {};
}

Result<void> check_mps_control(const Trial& trial, CardWithMps& card, Findings& findings) {
  MpsOfCard& mps = *card.mps;
  // Root may stop the daemon, which then does not respond any more.
  for (const int user : {kOtherUser, 0}) {
    Container container = mps.container(share_of(30, kSmallLimitMiB), true, {kControlInContainer});
    container.user = user;
    // A tenant could have this program in the image.
    container.more_mounts = {{find_program(trial.mps_control), kControlInContainer, true}};
    const Command enter = enter_command(trial, container);
    const auto send = [&](const std::string& command) {
      const auto answer = run_with_input({enter.path, enter.arguments, {}}, command + "\n",
                                         kAnswerBytesMax, milliseconds(10'000));
      return one_line(answer ? *answer : answer.error().message);
    };
    const std::string who = fmt::format("user {} of a container: ", user);
    findings.fact(who + "default percentage", send("get_default_active_thread_percentage"));
    findings.fact(who + "answer to setting it to 40",
                  send("set_default_active_thread_percentage 40"));
    findings.fact(who + "the default afterwards, from outside",
                  mps.send_command("get_default_active_thread_percentage"));
    findings.fact(who + "answer to quit", send("quit"));
    const bool runs = mps.mps().ready(card.node.card.uuid).has_value();
    findings.fact(who + "the daemon after quit", runs ? "runs" : "has ended");
  }
  return {};
}

Result<void> check_mps_pipe(const Trial& trial, CardWithMps& card, Findings& findings) {
  for (const int user : {kOtherUser, 0}) {
    const auto done = try_to_replace(trial, card, true, user, findings);
    findings.expect(fmt::format("user {} cannot change a pipe directory that is read-only", user),
                    done && done->empty(), done ? *done : done.error().message);
  }
  const auto client =
      run_to_end(card.mps->client(share_of(30, kSmallLimitMiB), {"vector-add"}), kProgramTimeout);
  expect_client(findings, "a client computes afterwards", client);
  static_cast<void>(try_to_replace(trial, card, false, kOtherUser, findings));
  const auto done = try_to_replace(trial, card, false, 0, findings);
  // Otherwise the attempts above would show nothing.
  findings.expect("root can change a pipe directory that is read-write", done && !done->empty(),
                  "no attempt succeeded, so that those with a read-only directory show nothing");
  const bool runs = card.mps->mps().ready(card.node.card.uuid).has_value();
  findings.fact("the daemon after \"control\" was removed", runs ? "responds" : "does not respond");
  return {};
}

Result<void> check_mps_client_folder(const Trial& trial, CardWithMps& card, Findings& findings) {
  for (const int user : {kOtherUser, 0}) try_silence(trial, card, user, findings);
  const auto client =
      run_to_end(card.mps->client(share_of(30, kSmallLimitMiB), {"vector-add"}), kProgramTimeout);
  expect_client(findings, "a client computes afterwards", client);
  return {};
}

}  // namespace mgpu::gpu_trial
