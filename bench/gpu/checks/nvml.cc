// Compares the device plugin's reading of NVML with nvidia-smi.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/gpu/checks/checks.h"
#include "bench/gpu/nvidia_smi.h"
#include "bench/gpu/nvml_more.h"
#include "plugin/cards/nvml_card.h"

namespace mgpu::gpu_trial {
namespace {

// Compares one field. A field that nvidia-smi does not have is only reported.
void compare(Findings& findings, const std::string& what, const std::string& from_plugin,
             const std::string& smi) {
  findings.fact(what, from_plugin);
  if (smi.empty()) {
    findings.fact(what + ", by nvidia-smi", "(no such field)");
    return;
  }
  findings.expect(
      what + " is that of nvidia-smi", from_plugin == smi,
      fmt::format("nvidia-smi reports \"{}\", the device plugin \"{}\"", smi, from_plugin));
}

// Returns the number in a text such as "143771 MiB".
std::optional<std::int64_t> mib_in(const std::string& text) {
  std::int64_t mib = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, mib);
  const bool is_mib = code == std::errc() && std::string_view(stop, end) == " MiB";
  return is_mib ? std::optional(mib) : std::nullopt;
}

// There is a tolerance, because nvidia-smi rounds while the device plugin truncates, and because
// programs may start and end between the two readings.
void compare_mib(Findings& findings, const std::string& what, std::int64_t from_plugin,
                 const std::string& smi, std::int64_t tolerance) {
  findings.fact(what, from_plugin, "MiB");
  findings.fact(what + ", by nvidia-smi", smi);
  const auto mib = mib_in(smi);
  if (!mib) return;
  findings.expect(what + " is that of nvidia-smi", std::abs(*mib - from_plugin) <= tolerance,
                  fmt::format("nvidia-smi reports {}, the device plugin {} MiB", smi, from_plugin));
}

std::int64_t in_mib(std::uint64_t bytes) {
  return static_cast<std::int64_t>(bytes / kBytesPerMiB);
}

std::string mig_text(const plugin::nvml::Functions& f, plugin::nvml::Device device) {
  unsigned current = 0;
  unsigned pending = 0;
  if (f.mig_mode == nullptr || f.mig_mode(device, &current, &pending) != plugin::nvml::kOk) {
    return "N/A/N/A";
  }
  const auto text = [](unsigned mode) {
    return mode == plugin::nvml::kEnabled ? "Enabled" : "Disabled";
  };
  return std::string(text(current)) + "/" + text(pending);
}

// The names of NVML's actions 0 to 4 in nvidia-smi.
std::string recovery_text(const std::optional<unsigned>& action) {
  constexpr std::array kActions = {"None", "Reset", "Reboot", "Drain P2P", "Drain and Reset"};
  if (!action) return "N/A";
  return *action < kActions.size() ? kActions[*action] : std::to_string(*action);
}

// The functions that the device plugin uses and this driver does not have.
Json absent_functions(const plugin::nvml::Functions& f) {
  const std::pair<const char*, bool> functions[] = {
      {"nvmlSystemGetDriverVersion", f.driver_version != nullptr},
      {"nvmlSystemGetNVMLVersion", f.nvml_version != nullptr},
      {"nvmlDeviceGetName", f.name != nullptr},
      {"nvmlDeviceGetMemoryInfo_v2", f.memory_v2 != nullptr},
      {"nvmlDeviceGetMigMode", f.mig_mode != nullptr},
      {"nvmlDeviceGetUtilizationRates", f.utilization != nullptr},
      {"nvmlDeviceGetProcessUtilization", f.process_utilization != nullptr},
      {"nvmlDeviceGetFieldValues", f.field_values != nullptr},
      {"nvmlDeviceGetRemappedRows", f.remapped_rows != nullptr},
      {"events", f.has_events()},
      {"nvmlDeviceGetComputeRunningProcesses", static_cast<bool>(f.compute)},
      {"nvmlDeviceGetGraphicsRunningProcesses", static_cast<bool>(f.graphics)},
      {"nvmlDeviceGetMPSComputeRunningProcesses", static_cast<bool>(f.mps)},
  };
  Json absent = Json::array();
  for (const auto& [name, there] : functions) {
    if (!there) absent.push_back(name);
  }
  return absent;
}

void compare_memory(Findings& findings, const NodeUnderTest& node, const NvmlCard& nvml,
                    const SmiCard& smi) {
  constexpr std::int64_t kRounding = 1;
  const auto memory = nvml.memory();
  const std::int64_t total = memory ? in_mib(memory->total) : node.card.memory.value();
  compare_mib(findings, "memory total", total, smi.field("fb_memory_usage.total"), kRounding);
  if (!memory) return findings.fact("memory reserved", "(no nvmlDeviceGetMemoryInfo_v2)");
  compare_mib(findings, "memory reserved", in_mib(memory->reserved),
              smi.field("fb_memory_usage.reserved"), kRounding);
  constexpr std::int64_t kChange = 64;
  compare_mib(findings, "memory used", in_mib(memory->used), smi.field("fb_memory_usage.used"),
              kChange);
}

void compare_card(Findings& findings, const NodeUnderTest& node, const NvmlCard& nvml,
                  const SmiCard& smi) {
  const plugin::nvml::Functions& f = nvml.library().functions();
  const auto reading = plugin::nvml::read_card(nvml.library(), nvml.device());
  compare(findings, "model", node.card.model, smi.field("product_name"));
  compare(findings, "minor number", reading.minor ? std::to_string(*reading.minor) : "N/A",
          smi.field("minor_number"));
  const std::string mig = smi.field("mig_mode.current_mig");
  compare(findings, "MIG mode", mig_text(f, nvml.device()),
          mig.empty() ? "" : mig + "/" + smi.field("mig_mode.pending_mig"));
  compare(findings, "recovery action", recovery_text(reading.probe.recovery_action),
          smi.field("gpu_recovery_action"));
  compare(findings, "row remapping failed", reading.probe.row_remap_failed ? "Yes" : "No",
          smi.field("remapped_rows.remapped_row_failure"));
  compare_memory(findings, node, nvml, smi);
  unsigned long long events = 0;
  if (f.event_types != nullptr) f.event_types(nvml.device(), &events);
  findings.fact("supported event types (bit mask)", events);
}

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

// The memory of each process in MiB by its process ID, because NVML's lists are not sorted.
std::map<std::string, std::uint64_t> as_map(const RawProcesses& list, std::size_t entry_bytes) {
  std::map<std::string, std::uint64_t> map;
  for (const RawProcess& entry : entries_of(list, entry_bytes)) {
    map[std::to_string(entry.pid)] = entry.used_bytes / kBytesPerMiB;
  }
  return map;
}

void compare_raw_lists(const NvmlCard& nvml, Findings& findings) {
  constexpr std::size_t kExpected = sizeof(plugin::nvml::ProcessInfo);
  std::vector<std::map<std::string, std::uint64_t>> lists;
  for (const std::string suffix : {"_v2", "_v3"}) {
    const RawProcesses raw = nvml.compute_processes(suffix);
    if (raw.code != plugin::nvml::kOk) {
      findings.fact("processes by " + suffix, nvml.library().describe(raw.code));
      continue;
    }
    lists.push_back(as_map(raw, kExpected));
    findings.fact("processes by " + suffix, lists.back(), "MiB");
    const auto written = entry_bytes_of(raw);
    findings.fact("bytes of an entry of " + suffix, written ? Json(*written) : Json());
    if (!written) continue;
    findings.expect("entries of " + suffix + " have 24 bytes", *written == kExpected,
                    fmt::format("this driver writes {} bytes an entry", *written));
  }
  if (lists.size() == 2) {
    findings.expect("_v2 and _v3 are equal", lists[0] == lists[1], "the lists differ");
  }
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

// --- utilization ---------------------------------------------------------------------------------

// The utilization of the card and of a process that keeps it busy, in percent, as reported by NVML.
struct Busy {
  std::optional<double> card;
  std::optional<double> process;
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

Result<void> check_nvml_fields(const Trial& trial, Findings& findings) {
  const auto node = inspect_node(trial);
  if (!node) return node.error();
  const auto nvml = NvmlCard::open(trial, node->card.uuid);
  if (!nvml) return nvml.error();
  findings.fact("source", node->source);
  findings.fact("NVML functions that this driver lacks",
                absent_functions((*nvml)->library().functions()));
  const auto report = query_nvidia_smi(trial);
  if (!report) return report.error();
  const auto card = report->cards.find(node->card.uuid.str());
  findings.expect("nvidia-smi lists the card", card != report->cards.end(), "it does not");
  if (card == report->cards.end()) return {};
  compare(findings, "driver version", node->driver_version, report->driver);
  compare_card(findings, *node, **nvml, card->second);
  return {};
}

Result<void> check_process_lists(const Trial& trial, Findings& findings) {
  const auto node = inspect_node(trial);
  if (!node) return node.error();
  const auto nvml = NvmlCard::open(trial, node->card.uuid);
  if (!nvml) return nvml.error();
  const auto holders = start_holders(trial, *node);
  if (!holders) return holders.error();
  Json started = Json::object();
  for (const Holder& holder : *holders) {
    started[std::to_string(holder.program.pid())] = holder.mib;
  }
  findings.fact("programs", started, "MiB allocated");
  compare_raw_lists(**nvml, findings);
  const Json list = listed_processes(trial, node->card.uuid);
  findings.fact("processes as the device plugin lists them", list, "MiB");
  for (const Holder& holder : *holders) {
    const std::string problem = problem_with(list, holder);
    findings.expect(fmt::format("the program that holds {} MiB is listed", holder.mib),
                    problem.empty(), problem);
  }
  const auto report = query_nvidia_smi(trial);
  findings.fact("processes, by nvidia-smi",
                report ? processes_json(*report, node->card.uuid) : Json(report.error().message));
  return {};
}

Result<void> check_utilization(const Trial& trial, Findings& findings) {
  const auto node = inspect_node(trial);
  if (!node) return node.error();
  const auto nvml = NvmlCard::open(trial, node->card.uuid);
  if (!nvml) return nvml.error();
  const auto program = start_and_wait(program_on_node(trial, *node, {"busy"}));
  if (!program) return program.error();
  const Busy busy = watch_busy(**nvml, node->card.uuid, *program, 2 * trial.measure);
  findings.fact("utilization of the card", percent_json(busy.card), "percent");
  findings.fact("utilization of the process", percent_json(busy.process), "percent");
  const auto report = query_nvidia_smi(trial);
  if (!report) return {};
  const auto card = report->cards.find(node->card.uuid.str());
  if (card != report->cards.end()) {
    findings.fact("utilization, by nvidia-smi", card->second.field("utilization.gpu_util"));
  }
  return {};
}

Result<void> check_memory(const Trial& trial, Findings& findings) {
  const auto node = inspect_node(trial);
  if (!node) return node.error();
  const auto nvml = NvmlCard::open(trial, node->card.uuid);
  if (!nvml) return nvml.error();
  const auto before = (*nvml)->memory();
  if (!before) return error("this driver has no nvmlDeviceGetMemoryInfo_v2");
  const std::int64_t announced = node->card.memory.value();
  findings.fact("announced by the device plugin", announced, "MiB");
  findings.fact("total", in_mib(before->total), "MiB");
  findings.fact("reserved", in_mib(before->reserved), "MiB");
  auto holder = start_and_wait(program_on_node(trial, *node, {"hold", "0"}));
  if (!holder) return holder.error();
  const auto with_context = (*nvml)->memory();
  findings.fact("total for a program", number_of(*holder, "total_mib"), "MiB");
  findings.fact("free for the first program", number_of(*holder, "free_mib"), "MiB");
  if (with_context) {
    findings.fact("used by one context", in_mib(with_context->used) - in_mib(before->used), "MiB");
  }
  static_cast<void>(holder->finish(kProgramTimeout));
  const auto largest = run_to_end(
      program_on_node(trial, *node, {"largest", std::to_string(announced)}), kProgramTimeout);
  if (!largest) return largest.error();
  findings.fact("largest allocation", number_of(*largest, "largest_mib"), "MiB");
  findings.fact("sum of 16-MiB allocations", number_of(*largest, "pieces_mib"), "MiB");
  findings.fact("error of the smallest allocation that failed", largest->value("beyond"));
  findings.expect("the announced memory is without what the driver reserves",
                  announced <= in_mib(before->total - before->reserved),
                  fmt::format("{} MiB are announced, {} of them are reserved: shares that add up "
                              "to the card cannot all be used",
                              announced, in_mib(before->reserved)));
  return {};
}

}  // namespace mgpu::gpu_trial
