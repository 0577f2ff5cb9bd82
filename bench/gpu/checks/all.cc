#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "bench/gpu/checks/checks.h"
#include "plugin/cards/mps/mps_process.h"

namespace mgpu::gpu_trial {
namespace {

using std::chrono::seconds;

template <CheckOfNode* kCheck>
Result<void> on_node(const Trial& trial, Findings& findings) {
  const auto node = inspect_node(trial);
  if (!node) return node.error();
  return kCheck(trial, *node, findings);
}

template <CheckOfMps* kCheck>
Result<void> with_mps(const Trial& trial, Findings& findings) {
  if (!has_mps(trial, findings)) return {};
  const auto card = start_card_with_mps(trial);
  if (!card) return card.error();
  return kCheck(trial, **card, findings);
}

// A check of containers that are clients.
template <CheckOfMps* kCheck>
Result<void> in_containers(const Trial& trial, Findings& findings) {
  if (!has_containers(trial, findings)) return {};
  return with_mps<kCheck>(trial, findings);
}

// device-files is the first check, because the other checks run CUDA programs, which load a kernel
// module. mps-kill-clients is the last one, because it may leave the card unusable.
constexpr std::array kChecks = {
    Check{"device-files", "Which device files exist before a CUDA program has run, and after?",
          seconds(60), check_device_files, false},
    Check{"nvml-fields", "Does the device plugin's reading of NVML agree with nvidia-smi?",
          seconds(60), on_node<check_nvml_fields>},
    Check{"process-lists", "Do NVML's process lists have the programs that run, and their memory?",
          seconds(60), on_node<check_process_lists>},
    Check{"utilization", "Does NVML report how busy a program keeps the card?", seconds(45),
          on_node<check_utilization>},
    Check{"memory", "How much of a card is reserved, and how much does one context take?",
          seconds(90), on_node<check_memory>},
    Check{"driver-libraries",
          "Does the device plugin find the libraries that the driver consists of?", seconds(30),
          on_node<check_driver_libraries>},
    Check{"release",
          "Which device files are open before and after the device plugin releases the driver?",
          seconds(90), on_node<check_release>, false},
    Check{"container", "Does CUDA run in a container with each kind of edits?", seconds(150),
          check_container},
    Check{"library", "Does the library in containers keep a container's programs within its share?",
          seconds(120), on_node<check_library>},
    Check{"driver-limits", "Does the driver's memory limit of a cgroup hold for its programs?",
          seconds(120), on_node<check_driver_limits>},
    Check{"driver-limits-hook",
          "Does the device plugin's hook limit a runc container before its program starts?",
          seconds(120), on_node<check_driver_limits_hook>},
    Check{"mps-start", "Does an MPS daemon of the device plugin serve a program, and end?",
          seconds(90), with_mps<check_mps_start>},
    Check{"mps-context",
          "How much memory do the MPS server and a client take, and which lists have them?",
          seconds(60), with_mps<check_mps_context>},
    Check{"mps-memory", "Does a memory limit hold, and how much of it can a program allocate?",
          seconds(90), with_mps<check_mps_memory>},
    Check{"mps-shares-alone", "How fast is a program with a share of the multiprocessors, alone?",
          seconds(90), with_mps<check_mps_shares_alone>},
    Check{"mps-two-processes", "Does a memory limit count for each process of a container?",
          seconds(60), in_containers<check_mps_two_processes>},
    Check{"mps-exclusive", "Does EXCLUSIVE_PROCESS keep programs outside of MPS from the card?",
          seconds(90), check_mps_exclusive},
    Check{"mps-container",
          "Does a limit hold in a container, with its pipe directory read-write and read-only?",
          seconds(90), in_containers<check_mps_container>},
    Check{"mps-pipe", "Can a container replace or remove the sockets of its pipe directory?",
          seconds(90), in_containers<check_mps_pipe>},
    Check{
        "mps-client-folder",
        "Does a container reach more than the socket for clients, and what does a silent one stop?",
        seconds(60), in_containers<check_mps_client_folder>},
    Check{"mps-restart", "What happens when the daemon is killed, and started again?", seconds(90),
          check_mps_restart},
    Check{"mps-many-clients", "How many clients does a card take?", seconds(120),
          with_mps<check_mps_many_clients>},
    Check{"mps-end-client", "Does a program survive a neighbour that the daemon ends?", seconds(90),
          check_mps_end_client},
    Check{"mps-kill-clients", "How often does a killed client end its neighbour?", seconds(300),
          with_mps<check_mps_kill_clients>},
};

}  // namespace

std::span<const Check> all_checks() {
  return kChecks;
}

bool has_containers(const Trial& trial, Findings& findings) {
  const std::string problem = problem_of_runc(trial);
  if (problem.empty()) return true;
  findings.skip("runc cannot run a container on this machine: " + problem);
  return false;
}

bool has_mps(const Trial& trial, Findings& findings) {
  if (!find_program(trial.mps_control).empty()) return true;
  findings.skip(trial.mps_control + " is not on this machine");
  return false;
}

void end_all(std::vector<RunningProgram>& programs) {
  for (RunningProgram& program : programs) program.end_input();
  programs.clear();
}

void expect_client(Findings& findings, std::string_view what,
                   const Result<RunningProgram>& program) {
  if (!program) return findings.expect(what, false, program.error().message);
  // Drivers before CUDA 12.2 do not report it.
  findings.expect(what, program->value("mps") != "0", "it ran outside of MPS, without a limit");
}

bool lists_client(const CardWithMps& card, pid_t pid) {
  for (const std::int64_t server : card.mps->servers()) {
    const auto clients =
        plugin::parse_pids(card.mps->send_command(fmt::format("get_client_list {}", server)));
    if (std::ranges::find(clients, pid) != clients.end()) return true;
  }
  return false;
}

double most_allocated(const RunningProgram& program) {
  return std::max(program.number("largest_mib").value_or(0),
                  program.number("pieces_mib").value_or(0));
}

void report_allocations(Findings& findings, const RunningProgram& program,
                        const std::string& when) {
  for (const auto& [what, value] : {std::pair("largest allocation", "largest_mib"),
                                    std::pair("sum of 16-MiB allocations", "pieces_mib"),
                                    std::pair("total that a program sees", "total_mib"),
                                    std::pair("free that a program sees", "free_mib")}) {
    findings.fact(what + when, number_of(program, value), "MiB");
  }
  findings.fact("error of the smallest allocation that failed" + when, program.value("beyond"));
}

void expect_limit(Findings& findings, std::string_view what, std::int64_t mib,
                  const Result<RunningProgram>& program) {
  if (!program) return findings.expect(what, false, program.error().message);
  const double most = most_allocated(*program);
  findings.expect(what, most > 0 && most <= static_cast<double>(mib),
                  fmt::format("{} MiB were allocated", most));
}

Share whole_card(const NodeUnderTest& node) {
  return {kWholeCard, node.card.memory};
}

Share share_of(int percent, std::int64_t mib) {
  return {Percent(percent), MiB(mib)};
}

bool is_within_share(double part, int percent) {
  constexpr double kOfTheShare = 0.15;
  constexpr double kOfTheCard = 0.02;
  return part <= percent / 100.0 * (1 + kOfTheShare) + kOfTheCard;
}

Json listed_processes(const Trial& trial, const CardUuid& card) {
  const auto source = plugin::nvml_source(nvml_options(trial));
  static_cast<void>(source->read());
  Json list = Json::object();
  for (const plugin::CardUse& use : source->use()) {
    if (use.uuid != card) continue;
    for (const plugin::ProcessUse& process : use.processes) {
      list[std::to_string(process.pid)] = process.memory ? Json(process.memory->value()) : Json();
    }
  }
  return list;
}

Json processes_json(const SmiReport& report, const CardUuid& card) {
  Json list = Json::object();
  const auto found = report.cards.find(card.str());
  if (found == report.cards.end()) return list;
  for (const SmiProcess& process : found->second.processes) {
    list[std::to_string(process.pid)] = process.type + " " + process.memory;
  }
  return list;
}

Json number_of(const RunningProgram& program, const std::string& name) {
  const auto number = program.number(name);
  if (!number) return {};
  const auto whole = static_cast<std::int64_t>(*number);
  return static_cast<double>(whole) == *number ? Json(whole) : Json(*number);
}

double rounded(double value) {
  return std::round(value * 1'000) / 1'000;
}

Result<double> rate_of(RunningProgram& program) {
  const auto printed = program.next("rate", kProgramTimeout);
  if (!printed) return printed.error();
  const auto rate = program.number("rate");
  return rate && *rate > 0 ? Result<double>(*rate) : error("it printed no rate: " + *printed);
}

}  // namespace mgpu::gpu_trial
