// MPS as the device plugin starts it: its memory limits, and ways to bypass them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/gpu/checks/checks.h"
#include "bench/gpu/nvml_more.h"
#include "common/base/process.h"

namespace mgpu::gpu_trial {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr char kControlInContainer[] = "/usr/bin/nvidia-cuda-mps-control";
constexpr char kPipeVariable[] = "CUDA_MPS_PIPE_DIRECTORY";
constexpr char kLimitVariable[] = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";
constexpr std::int64_t kSmallLimitMiB = 2'048;
constexpr std::int64_t kBeyondMiB = 1'024;
constexpr std::size_t kAnswerBytesMax = 64 * 1024;

std::string one_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

Json entries_of_folder(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  std::filesystem::directory_iterator at(folder, failed);
  for (; !failed && at != std::filesystem::directory_iterator(); at.increment(failed)) {
    names.push_back(at->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// --- limits --------------------------------------------------------------------------------------

// The memory that a program with this limit could allocate, in one piece or in small pieces.
double most_allocated(const RunningProgram& program) {
  return std::max(program.number("largest_mib").value_or(0),
                  program.number("pieces_mib").value_or(0));
}

void expect_limit(Findings& findings, const std::string& what, std::int64_t mib,
                  const Result<RunningProgram>& program) {
  if (!program) return findings.expect(what, false, program.error().message);
  const double most = most_allocated(*program);
  findings.expect(what, most > 0 && most <= static_cast<double>(mib),
                  fmt::format("{} MiB were allocated", most));
}

void try_limit(const CardWithMps& card, std::int64_t mib, Findings& findings) {
  const auto program = run_to_end(
      card.mps->client(share_of(100, mib), {"largest", std::to_string(mib + kBeyondMiB)}),
      kProgramTimeout);
  expect_client(findings, fmt::format("a client with {} MiB runs", mib), program);
  expect_limit(findings, fmt::format("the limit of {} MiB holds", mib), mib, program);
  if (!program) return;
  const auto fact = [&](const std::string& what, const char* value) {
    findings.fact(fmt::format("{} at {} MiB", what, mib), number_of(*program, value), "MiB");
  };
  fact("largest allocation", "largest_mib");
  fact("sum of 16-MiB allocations", "pieces_mib");
  fact("total that a program sees", "total_mib");
  fact("free that a program sees", "free_mib");
  findings.fact(fmt::format("error of the smallest allocation that failed at {} MiB", mib),
                program->value("beyond"));
}

// Runs a program that unsets this variable and allocates more than its limit.
std::string try_without(const CardWithMps& card, const std::string& variable) {
  Command command = card.mps->client(share_of(30, kSmallLimitMiB),
                                     {"hold", std::to_string(kSmallLimitMiB + kBeyondMiB)});
  command.environment.erase(variable);
  if (variable == kPipeVariable) {
    // Outside of MPS the program sees all cards of the machine.
    command.environment["CUDA_VISIBLE_DEVICES"] = card.node.card.uuid.str();
  }
  const auto program = start_and_wait(command);
  if (!program) return "refused: " + program.error().message;
  return program->value("mps") == "0" ? "allocates beyond its limit, outside of MPS"
                                      : "allocates beyond its limit";
}

// --- containers ----------------------------------------------------------------------------------

// Checks the limit of one container that is a client.
bool try_container(const Trial& trial, const Container& container, const std::string& which,
                   Findings& findings) {
  const auto program = run_to_end(enter_command(trial, container), kProgramTimeout);
  findings.fact("largest allocation " + which,
                program ? number_of(*program, "largest_mib") : Json(program.error().message),
                program ? "MiB" : "");
  const double most = program ? most_allocated(*program) : 0;
  const bool held = most > 0 && most <= kSmallLimitMiB;
  // The device plugin mounts it read-write. The check shows whether read-only is sufficient.
  if (!container.edits.mounts.back().read_only) {
    expect_limit(findings, "the limit holds " + which, kSmallLimitMiB, program);
  }
  return held;
}

// Tries a failing container again with the node's /dev/shm, or with its namespaces.
void find_what_is_missing(const Trial& trial, Container container, Findings& findings) {
  container.more_mounts = {{"/dev/shm", "/dev/shm", false}};
  try_container(trial, container, "with the node's /dev/shm", findings);
  container.more_mounts.clear();
  container.own_namespaces = false;
  try_container(trial, container, "in the node's pid and IPC namespaces", findings);
}

}  // namespace

Result<void> check_mps_start(const Trial& trial, Findings& findings) {
  if (!has_mps(trial, findings)) return {};
  const auto card = start_card_with_mps(trial);
  if (!card) return card.error();
  MpsOfCard& mps = *(*card)->mps;
  findings.fact("time until the daemon answered", mps.time_to_start().count(), "ms");
  const auto program =
      run_to_end(mps.client(whole_card((*card)->node), {"vector-add"}), kProgramTimeout);
  expect_client(findings, "a client computes", program);
  if (program) findings.fact("this program is a client of MPS", program->value("mps"));
  findings.expect("the daemon has started a server", !mps.servers().empty(),
                  mps.send_command("get_server_list"));
  findings.fact("files of the pipe directory", entries_of_folder(mps.folders().pipe));
  const auto begin = steady_clock::now();
  mps.mps().stop();
  const auto time = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
  findings.fact("time until the daemon ended", time.count(), "ms");
  findings.expect("the daemon ends after quit", time < plugin::MpsTimes().quit, "it was killed");
  return {};
}

Result<void> check_mps_context(const Trial& trial, Findings& findings) {
  if (!has_mps(trial, findings)) return {};
  const auto card = start_card_with_mps(trial);
  if (!card) return card.error();
  const CardUuid& uuid = (*card)->node.card.uuid;
  const auto nvml = NvmlCard::open(trial, uuid);
  if (!nvml) return nvml.error();
  std::vector<RunningProgram> clients;
  auto before = (*nvml)->memory();
  for (const char* const which :
       {"the server and the first client", "the second client", "the third client"}) {
    auto client = start_and_wait((*card)->mps->client(whole_card((*card)->node), {"hold", "0"}));
    expect_client(findings, std::string(which) + " runs", client);
    if (!client) return {};
    clients.push_back(*std::move(client));
    const auto after = (*nvml)->memory();
    const bool known = before && after;
    findings.fact(fmt::format("used by {}", which),
                  known ? Json((static_cast<std::int64_t>(after->used) -
                                static_cast<std::int64_t>(before->used)) /
                               static_cast<std::int64_t>(kBytesPerMiB))
                        : Json(),
                  "MiB");
    before = after;
  }
  const Json listed = listed_processes(trial, uuid);
  findings.fact("servers", (*card)->mps->servers());
  findings.fact("processes as the device plugin lists them", listed, "MiB");
  for (const RunningProgram& client : clients) {
    findings.expect(fmt::format("client {} is listed", client.pid()),
                    listed.contains(std::to_string(client.pid())),
                    "NVML does not list it, so the memory of containers cannot be measured");
  }
  const auto report = query_nvidia_smi(trial);
  if (report) findings.fact("processes, by nvidia-smi", processes_json(*report, uuid));
  end_all(clients);
  return {};
}

Result<void> check_mps_memory(const Trial& trial, Findings& findings) {
  if (!has_mps(trial, findings)) return {};
  const auto card = start_card_with_mps(trial);
  if (!card) return card.error();
  for (const std::int64_t mib : {1'024, 8'000, 40'000}) {
    if (mib < (*card)->node.card.memory.value()) {
      try_limit(**card, mib, findings);
    } else {
      findings.fact(fmt::format("largest allocation at {} MiB", mib), "(the card is smaller)");
    }
  }
  return {};
}

Result<void> check_mps_two_processes(const Trial& trial, Findings& findings) {
  if (!has_mps(trial, findings)) return {};
  const auto card = start_card_with_mps(trial);
  if (!card) return card.error();
  constexpr std::int64_t kLimitMiB = 8'192;
  const std::int64_t limit = std::min(kLimitMiB, (*card)->node.card.memory.value() / 4);
  const std::string held = std::to_string(limit * 5 / 8);
  findings.fact("limit", limit, "MiB");
  findings.fact("held by each of two processes", limit * 5 / 8, "MiB");
  auto first = start_and_wait((*card)->mps->client(share_of(50, limit), {"hold", held}));
  expect_client(findings, "the first process runs", first);
  if (!first) return {};
  const auto second = start_and_wait((*card)->mps->client(share_of(50, limit), {"hold", held}));
  findings.fact("second process", second ? "its allocation succeeded" : second.error().message);
  const bool refused = !second && first->is_alive() &&
                       second.error().message.find("OUT_OF_MEMORY") != std::string::npos;
  findings.fact("the limit counts for", second    ? "each process"
                                        : refused ? "all processes together"
                                                  : "(unknown)");
  return {};
}

Result<void> check_mps_bypass(const Trial& trial, Findings& findings) {
  if (!has_mps(trial, findings)) return {};
  const auto card = start_card_with_mps(trial);
  if (!card) return card.error();
  const auto nvml = NvmlCard::open(trial, (*card)->node.card.uuid);
  if (!nvml) return nvml.error();
  const auto mode = (*nvml)->number("nvmlDeviceGetComputeMode");
  findings.fact("compute mode", mode ? Json(*mode) : Json());
  findings.fact("all variables set", try_without(**card, ""));
  findings.fact(fmt::format("without {}", kPipeVariable), try_without(**card, kPipeVariable));
  findings.fact(fmt::format("without {}", kLimitVariable), try_without(**card, kLimitVariable));
  const std::string exclusive = fmt::format("without {}, in EXCLUSIVE_PROCESS", kPipeVariable);
  if (!trial.exclusive || !mode) {
    findings.fact(exclusive, "(not tried: only --exclusive changes the compute mode)");
    return {};
  }
  if (auto set = (*nvml)->set_compute_mode(kExclusiveProcess); !set) return set.error();
  findings.fact(exclusive, try_without(**card, kPipeVariable));
  return (*nvml)->set_compute_mode(*mode);
}

Result<void> check_mps_container(const Trial& trial, Findings& findings) {
  if (!has_mps(trial, findings)) return {};
  const auto card = start_card_with_mps(trial);
  if (!card) return card.error();
  const std::vector<std::string> command = {kProgramInContainer, "largest",
                                            std::to_string(kSmallLimitMiB + kBeyondMiB)};
  for (const bool read_only : {false, true}) {
    for (const int user : {0, kOtherUser}) {
      Container container =
          (*card)->mps->container(share_of(30, kSmallLimitMiB), read_only, command);
      container.user = user;
      const std::string which =
          fmt::format("as user {}, pipe {}", user, read_only ? "read-only" : "read-write");
      const bool held = try_container(trial, container, which, findings);
      if (!held && user == 0) find_what_is_missing(trial, container, findings);
    }
  }
  return {};
}

Result<void> check_mps_control(const Trial& trial, Findings& findings) {
  if (!has_mps(trial, findings)) return {};
  const auto card = start_card_with_mps(trial);
  if (!card) return card.error();
  MpsOfCard& mps = *(*card)->mps;
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
    const bool runs = mps.mps().ready((*card)->node.card.uuid).has_value();
    findings.fact(who + "the daemon after quit", runs ? "runs" : "has ended");
  }
  return {};
}

}  // namespace mgpu::gpu_trial
