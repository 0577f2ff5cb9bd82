// Containers that are clients of MPS: their limits, and what they can do to the daemon.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/gpu/checks/checks.h"

namespace mgpu::gpu_trial {
namespace {

constexpr char kPipeVariable[] = "CUDA_MPS_PIPE_DIRECTORY";
constexpr std::int64_t kSmallLimitMiB = 2'048;
constexpr std::int64_t kBeyondSmallLimitMiB = 1'024;

const char* pipe_text(bool read_only) {
  return read_only ? "read-only" : "read-write";
}

// --- limits --------------------------------------------------------------------------------------

// Measures what a container can allocate. Error: the program fails.
Result<RunningProgram> run_largest(const Trial& trial, const Container& container,
                                   const std::string& which, Findings& findings) {
  auto program = run_container(trial, container);
  findings.fact("largest allocation " + which,
                program ? number_of(*program, "largest_mib") : Json(program.error().message),
                program ? "MiB" : "");
  return program;
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
  const auto program = run_container(trial, container);
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
  auto program = start_container(trial, container);
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
    }
  }
  return {};
}

Result<void> check_mps_two_processes(const Trial& trial, CardWithMps& card, Findings& findings) {
  constexpr std::int64_t kLimitMiB = 8'192;
  const std::int64_t limit = std::min(kLimitMiB, card.node.card.memory.value() / 4);
  findings.fact("limit", limit, "MiB");
  findings.fact("held by each of two processes", limit * 5 / 8, "MiB");
  Container container = card.mps->container(share_of(50, limit), true, kIdleInContainer);
  const auto idle = start_container(trial, container);
  if (!idle) return idle.error();
  container.command = {kProgramInContainer, "hold", std::to_string(limit * 5 / 8)};
  const auto first = start_and_wait(in_container(trial, container));
  expect_client(findings, "the first process of the container runs", first);
  if (!first) return {};
  const auto second = start_and_wait(in_container(trial, container));
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
