// The programs on a card and how busy they keep it, by NVML and by nvidia-smi.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/checks/checks.h"
#include "bench/gpu/nvidia_smi.h"
#include "bench/gpu/nvml_more.h"
#include "plugin/cards/nvml/nvml_card.h"

namespace mgpu::gpu_trial {
namespace {

// --- processes -----------------------------------------------------------------------------------

constexpr std::array<std::int64_t, 3> kHeldMiB = {256, 512, 1'024};
// A CUDA context takes 300 to 600 MiB on large cards.
constexpr std::int64_t kContextMiBMax = 2'048;

struct Holder {
  std::int64_t mib = 0;
  RunningProgram program;
};

Result<std::vector<Holder>> start_holders(const Trial& trial, const NodeUnderTest& node) {
  std::vector<Holder> holders;
  for (const std::int64_t mib : kHeldMiB) {
    auto program = start_and_wait(program_on_node(trial, node, {"hold", std::to_string(mib)}));
    if (!program) return program.error();
    holders.push_back({mib, *std::move(program)});
  }
  return holders;
}

// The problem of the entry of a running program; empty if there is none.
std::string problem_with(const Json& list, const Holder& holder) {
  const std::string pid = std::to_string(holder.program.pid());
  if (!list.contains(pid)) return fmt::format("process {} is not in the list", pid);
  if (list[pid].is_null()) return fmt::format("NVML does not report the memory of process {}", pid);
  const std::int64_t mib = list[pid];
  if (mib >= holder.mib && mib <= holder.mib + kContextMiBMax) return "";
  return fmt::format("process {} holds {} MiB and a context, the list says {} MiB", pid, holder.mib,
                     mib);
}

// The memory of running programs in nvidia-smi, which rounds while the device plugin truncates.
void compare_with_smi(const SmiReport& report, const CardUuid& card, const Json& list,
                      const std::vector<Holder>& holders, Findings& findings) {
  constexpr std::int64_t kRounding = 1;
  const auto found = report.cards.find(card.str());
  for (const Holder& holder : holders) {
    const std::string pid = std::to_string(holder.program.pid());
    std::optional<std::int64_t> mib;
    for (const SmiProcess& process :
         found == report.cards.end() ? std::vector<SmiProcess>() : found->second.processes) {
      if (process.pid == holder.program.pid()) mib = amount_in(process.memory, "MiB");
    }
    const bool known = list.contains(pid) && list[pid].is_number();
    const std::int64_t listed = known ? list[pid].get<std::int64_t>() : 0;
    findings.expect(fmt::format("the memory of the program that holds {} MiB is that of nvidia-smi",
                                holder.mib),
                    known && mib && std::abs(*mib - listed) <= kRounding,
                    fmt::format("nvidia-smi reports {}, the device plugin {}",
                                mib ? fmt::format("{} MiB", *mib) : "none",
                                known ? fmt::format("{} MiB", listed) : "none"));
  }
}

// NVML runs in the node's namespaces, and a container has its own process IDs.
void expect_container_is_listed(const Trial& trial, const NodeUnderTest& node, Findings& findings) {
  constexpr char kFact[] = "processes while a container runs";
  if (const std::string problem = problem_of_runc(trial); !problem.empty()) {
    return findings.fact(kFact, "(not tried: " + problem + ")");
  }
  const Container container{.edits = edits_of(trial, node, whole_card(node)),
                            .command = {kProgramInContainer, "hold", "256"}};
  const auto program = start_container(trial, container);
  const std::string pid = std::to_string(pid_of_container(trial));
  const Json list = listed_processes(trial, node.card.uuid);
  findings.fact(kFact, list, "MiB");
  findings.expect("the program of a container has its process ID of the node",
                  program && list.contains(pid),
                  program ? fmt::format("process {} of a container is not in the list", pid)
                          : program.error().message);
}

// --- utilization ---------------------------------------------------------------------------------

// The utilization of the card and of a process that keeps it busy, in percent, as reported by NVML.
struct Busy {
  std::optional<double> card;  // the highest value
  std::optional<double> process;
  std::optional<double> card_at_the_end;
};

Busy watch_busy(const NvmlCard& nvml, const CardUuid& card, const RunningProgram& program,
                std::chrono::milliseconds duration) {
  Busy busy;
  std::uint64_t seen_us = 0;
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
    ::poll(nullptr, 0, 250);
    const auto use = plugin::nvml::read_use(nvml.library(), nvml.device(), card, seen_us);
    if (!use) continue;
    busy.card = std::max(busy.card, use->sm_percent);
    busy.card_at_the_end = use->sm_percent;
    for (const plugin::ProcessUse& process : use->processes) {
      if (process.pid == program.pid()) busy.process = std::max(busy.process, process.sm_percent);
    }
  }
  return busy;
}

Json percent_json(const std::optional<double>& percent) {
  return percent ? Json(*percent) : Json("(not reported)");
}

}  // namespace

Result<void> check_process_lists(const Trial& trial, const NodeUnderTest& node,
                                 Findings& findings) {
  const auto holders = start_holders(trial, node);
  if (!holders) return holders.error();
  Json started = Json::object();
  for (const Holder& holder : *holders) {
    started[std::to_string(holder.program.pid())] = holder.mib;
  }
  findings.fact("programs", started, "MiB allocated");
  const Json list = listed_processes(trial, node.card.uuid);
  findings.fact("processes as the device plugin lists them", list, "MiB");
  for (const Holder& holder : *holders) {
    const std::string problem = problem_with(list, holder);
    findings.expect(fmt::format("the program that holds {} MiB is listed", holder.mib),
                    problem.empty(), problem);
  }
  const auto report = query_nvidia_smi(trial);
  findings.fact("processes, by nvidia-smi",
                report ? processes_json(*report, node.card.uuid) : Json(report.error().message));
  if (report) compare_with_smi(*report, node.card.uuid, list, *holders, findings);
  expect_container_is_listed(trial, node, findings);
  return {};
}

Result<void> check_utilization(const Trial& trial, const NodeUnderTest& node, Findings& findings) {
  const auto nvml = NvmlCard::open(trial, node.card.uuid);
  if (!nvml) return nvml.error();
  const auto program = start_and_wait(program_on_node(trial, node, {"busy"}));
  if (!program) return program.error();
  const Busy busy = watch_busy(**nvml, node.card.uuid, *program, 2 * trial.measure);
  findings.fact("utilization of the card", percent_json(busy.card), "percent");
  findings.fact("utilization of the process", percent_json(busy.process), "percent");
  const auto report = query_nvidia_smi(trial);
  if (!report) return report.error();
  const auto card = report->cards.find(node.card.uuid.str());
  const std::string smi =
      card == report->cards.end() ? "" : card->second.field("utilization.gpu_util");
  findings.fact("utilization, by nvidia-smi", smi);
  const auto percent = amount_in(smi, "%");
  if (!percent || !busy.card_at_the_end) return {};
  // Both report the last sample, up to a second old, of a card that is busy all the time.
  constexpr double kTolerance = 25;
  findings.expect(
      "the utilization of the card is that of nvidia-smi",
      std::abs(static_cast<double>(*percent) - *busy.card_at_the_end) <= kTolerance,
      fmt::format("nvidia-smi reports {}, the device plugin {} %", smi, *busy.card_at_the_end));
  return {};
}

}  // namespace mgpu::gpu_trial
