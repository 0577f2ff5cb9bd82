// MPS as the device plugin starts it: its processes in NVML's lists, and its memory limits.
#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "bench/gpu/checks/checks.h"
#include "bench/gpu/nvml_more.h"
#include "common/base/files.h"

namespace mgpu::gpu_trial {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::int64_t kBeyondMiB = 1'024;

// The last lines of a log; empty if there is none.
Json last_lines(const std::string& path) {
  constexpr std::size_t kLines = 8;
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
    if (lines.size() > kLines) lines.erase(lines.begin());
  }
  return lines;
}

// Facts about a server that does not serve a program. The program reports only that it has none.
void explain_server(const MpsOfCard& mps, Findings& findings) {
  findings.fact("answer to start_server", mps.send_command("start_server -uid 0"));
  findings.fact("status of the server", mps.server_status());
  for (const std::string name : {"control.log", "server.log", "daemon.log"}) {
    findings.fact("end of " + name, last_lines(mps.folders().log + "/" + name));
  }
}

// --- process lists -------------------------------------------------------------------------------

// Whether the device plugin counts a process as one without MPS. None: it does not list it.
std::optional<bool> runs_without_mps(const std::vector<plugin::CardUse>& use, pid_t pid) {
  for (const plugin::CardUse& card : use) {
    for (const plugin::ProcessUse& process : card.processes) {
      if (process.pid == pid) return process.without_mps;
    }
  }
  return std::nullopt;
}

// The Event MGPUBypass reports processes of a container beside MPS.
void expect_bypass_is_seen(const Trial& trial, const NodeUnderTest& node,
                           const std::vector<RunningProgram>& clients, Findings& findings) {
  const auto outside = start_and_wait(program_on_node(trial, node, {"hold", "0"}));
  if (!outside) {
    findings.fact("a program outside of MPS", outside.error().message);
    return;
  }
  const auto source = plugin::nvml_source(nvml_options(trial));
  static_cast<void>(source->read());
  const auto use = source->use();
  for (const RunningProgram& client : clients) {
    findings.expect(fmt::format("the device plugin finds that client {} uses MPS", client.pid()),
                    runs_without_mps(use, client.pid()) == false,
                    "it would report the client as a program that bypasses MPS");
  }
  findings.expect("the device plugin finds the program that does not use MPS",
                  runs_without_mps(use, outside->pid()) == true,
                  "it cannot report programs that bypass MPS");
}

// The device plugin finds the container of a client by its process ID on the node.
void expect_container_is_listed(const CardWithMps& card, pid_t pid, const Json& listed,
                                Findings& findings) {
  const std::string text = std::to_string(pid);
  findings.fact("process of the container", text);
  findings.expect("NVML lists the client of a container by its process ID of the node",
                  listed.contains(text), fmt::format("process {} is not in the list", text));
  findings.expect("the daemon lists the client of a container by its process ID of the node",
                  lists_client(card, pid), fmt::format("process {} is not in the list", text));
}

// --- limits --------------------------------------------------------------------------------------

void try_limit(const CardWithMps& card, std::int64_t mib, Findings& findings) {
  const auto program = run_to_end(
      card.mps->client(share_of(100, mib), {"largest", std::to_string(mib + kBeyondMiB)}),
      kProgramTimeout);
  expect_client(findings, fmt::format("a client with {} MiB runs", mib), program);
  expect_limit(findings, fmt::format("the limit of {} MiB holds", mib), mib, program);
  if (!program) return;
  report_allocations(findings, *program, fmt::format(" at {} MiB", mib));
}

}  // namespace

Result<void> check_mps_start(const Trial&, CardWithMps& card, Findings& findings) {
  MpsOfCard& mps = *card.mps;
  findings.fact("time until the daemon answered", mps.time_to_start().count(), "ms");
  const auto program =
      run_to_end(mps.client(whole_card(card.node), {"vector-add"}), kProgramTimeout);
  expect_client(findings, "a client computes", program);
  if (program) findings.fact("this program is a client of MPS", program->value("mps"));
  findings.expect("the daemon has started a server", !mps.servers().empty(),
                  mps.send_command("get_server_list"));
  const bool served = program && program->value("mps") != "0" && !mps.servers().empty();
  if (!served) explain_server(mps, findings);
  findings.fact("files of the pipe directory", names_in(mps.folders().pipe));
  const auto begin = steady_clock::now();
  mps.mps().stop();
  const auto time = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
  findings.fact("time until the daemon ended", time.count(), "ms");
  findings.expect("the daemon ends after quit", time < plugin::MpsTimes().quit, "it was killed");
  return {};
}

Result<void> check_mps_context(const Trial& trial, CardWithMps& card, Findings& findings) {
  const CardUuid& uuid = card.node.card.uuid;
  const auto nvml = NvmlCard::open(trial, uuid);
  if (!nvml) return nvml.error();
  std::vector<RunningProgram> clients;
  auto before = (*nvml)->memory();
  for (const char* const which :
       {"the server and the first client", "the second client", "the third client"}) {
    auto client = start_and_wait(card.mps->client(whole_card(card.node), {"hold", "0"}));
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
  const std::string problem = problem_of_runc(trial);
  auto contained =
      problem.empty()
          ? start_container(trial, card.mps->container(whole_card(card.node), true,
                                                       {kProgramInContainer, "hold", "0"}))
          : Result<RunningProgram>(error(problem));
  if (problem.empty()) {
    expect_client(findings, "a client in a container runs", contained);
  } else {
    findings.fact("a client in a container", "(not tried: " + problem + ")");
  }
  const Json listed = listed_processes(trial, uuid);
  if (contained) expect_container_is_listed(card, pid_of_container(trial), listed, findings);
  findings.fact("servers", card.mps->servers());
  findings.fact("processes as the device plugin lists them", listed, "MiB");
  for (const RunningProgram& client : clients) {
    findings.expect(fmt::format("client {} is listed", client.pid()),
                    listed.contains(std::to_string(client.pid())),
                    "NVML does not list it, so the memory of containers cannot be measured");
  }
  const auto report = query_nvidia_smi(trial);
  if (report) findings.fact("processes, by nvidia-smi", processes_json(*report, uuid));
  expect_bypass_is_seen(trial, card.node, clients, findings);
  end_all(clients);
  return {};
}

Result<void> check_mps_memory(const Trial&, CardWithMps& card, Findings& findings) {
  for (const std::int64_t mib : {1'024, 8'000, 40'000}) {
    if (mib < card.node.card.memory.value()) {
      try_limit(card, mib, findings);
    } else {
      findings.fact(fmt::format("largest allocation at {} MiB", mib), "(the card is smaller)");
    }
  }
  return {};
}

}  // namespace mgpu::gpu_trial
