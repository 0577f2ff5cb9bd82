// What our reading of NVML says, beside what nvidia-smi says.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/checks/checks.h"
#include "bench/gpu/nvidia_smi.h"
#include "bench/gpu/nvml_more.h"
#include "plugin/gpu/nvml_card.h"

namespace mgpu::gpu_trial {
namespace {

constexpr std::uint64_t kBytesPerMiB = std::uint64_t{1} << 20;

// One field of both; a field that nvidia-smi does not have is a fact alone.
void compare(Findings& findings, const std::string& what, const std::string& ours,
             const std::string& theirs) {
  findings.fact(what, ours);
  if (theirs.empty()) {
    findings.fact(what + " of nvidia-smi", "(no such field)");
    return;
  }
  findings.expect(what + " is that of nvidia-smi", ours == theirs,
                  fmt::format("nvidia-smi says \"{}\", NVML as we read it \"{}\"", theirs, ours));
}

std::string in_mib(std::uint64_t bytes) {
  return fmt::format("{} MiB", bytes / kBytesPerMiB);
}

std::string mig_text(const gpu::nvml::Functions& f, gpu::nvml::Device device) {
  unsigned current = 0;
  unsigned pending = 0;
  if (f.mig_mode == nullptr || f.mig_mode(device, &current, &pending) != gpu::nvml::kOk) {
    return "N/A/N/A";
  }
  const auto text = [](unsigned mode) {
    return mode == gpu::nvml::kEnabled ? "Enabled" : "Disabled";
  };
  return std::string(text(current)) + "/" + text(pending);
}

// As nvidia-smi names NVML's actions 0 to 4.
std::string recovery_text(const std::optional<unsigned>& action) {
  constexpr std::array kActions = {"None", "Reset", "Reboot", "Drain P2P", "Drain and Reset"};
  if (!action) return "N/A";
  return *action < kActions.size() ? kActions[*action] : std::to_string(*action);
}

// The functions that the device plugin asks for and this driver lacks.
Json absent_functions(const gpu::nvml::Functions& f) {
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
  compare(findings, "memory total", fmt::format("{} MiB", node.card.memory.value()),
          smi.field("fb_memory_usage.total"));
  const auto memory = nvml.memory();
  if (!memory) return findings.fact("memory reserved", "(no nvmlDeviceGetMemoryInfo_v2)");
  compare(findings, "memory reserved", in_mib(memory->reserved),
          smi.field("fb_memory_usage.reserved"));
  // Programs that come and go change it between the two questions.
  findings.fact("memory used", in_mib(memory->used));
  findings.fact("memory used of nvidia-smi", smi.field("fb_memory_usage.used"));
}

void compare_card(Findings& findings, const NodeUnderTest& node, const NvmlCard& nvml,
                  const SmiCard& smi) {
  const gpu::nvml::Functions& f = nvml.library().functions();
  const auto reading = gpu::nvml::read_card(nvml.library(), nvml.device());
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
  findings.fact("utilization of nvidia-smi", smi.field("utilization.gpu_util"));
  std::uint64_t seen_us = 0;
  const auto use = gpu::nvml::read_use(nvml.library(), nvml.device(), node.card.uuid, seen_us);
  findings.fact("utilization", use && use->sm_percent ? Json(*use->sm_percent) : Json(), "percent");
  unsigned long long events = 0;
  if (f.event_types != nullptr) f.event_types(nvml.device(), &events);
  findings.fact("events", events);
}

// --- processes -----------------------------------------------------------------------------------

constexpr std::array<std::int64_t, 3> kHeldMiB = {256, 512, 1'024};
// A context takes 300 to 600 MiB on large cards.
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

// One list that NVML gives, with entries of the size that was written.
Json list_json(const RawProcesses& list, std::size_t entry_bytes) {
  Json json = Json::object();
  for (const RawProcess& entry : entries_of(list, entry_bytes)) {
    json[std::to_string(entry.pid)] = entry.used_bytes / kBytesPerMiB;
  }
  return json;
}

void look_at_raw_lists(const NvmlCard& nvml, Findings& findings) {
  constexpr std::size_t kExpected = sizeof(gpu::nvml::ProcessInfo);
  Json lists = Json::array();
  for (const std::string suffix : {"_v2", "_v3"}) {
    const RawProcesses raw = nvml.compute_processes(suffix);
    if (raw.code != gpu::nvml::kOk) {
      findings.fact("processes by " + suffix, nvml.library().describe(raw.code));
      continue;
    }
    const std::size_t written = entry_bytes_of(raw).value_or(kExpected);
    findings.fact("processes by " + suffix, list_json(raw, kExpected), "MiB");
    findings.expect("entries of " + suffix + " have 24 bytes", written == kExpected,
                    fmt::format("this driver writes {} bytes an entry", written));
    lists.push_back(list_json(raw, kExpected));
  }
  if (lists.size() == 2) {
    findings.expect("_v2 and _v3 are equal", lists[0] == lists[1], "the lists differ");
  }
}

// How our list names a program that runs.
std::string problem_with(const gpu::CardUse& use, const Holder& holder) {
  const auto found = std::find_if(
      use.processes.begin(), use.processes.end(),
      [&](const gpu::ProcessUse& process) { return process.pid == holder.program.pid(); });
  if (found == use.processes.end()) {
    return fmt::format("process {} is not in the list", holder.program.pid());
  }
  if (!found->memory) return fmt::format("the memory of process {} is not told", found->pid);
  const std::int64_t mib = found->memory->value();
  if (mib >= holder.mib && mib <= holder.mib + kContextMiBMax) return "";
  return fmt::format("process {} holds {} MiB and a context, the list says {} MiB", found->pid,
                     holder.mib, mib);
}

void look_at_our_list(const Trial& trial, const NodeUnderTest& node,
                      const std::vector<Holder>& holders, Findings& findings) {
  const auto source = gpu::nvml_source(nvml_options(trial));
  static_cast<void>(source->read());
  gpu::CardUse use;
  for (gpu::CardUse& card : source->use()) {
    if (card.uuid == node.card.uuid) use = std::move(card);
  }
  Json list = Json::object();
  for (const auto& process : use.processes) {
    list[std::to_string(process.pid)] = process.memory ? Json(process.memory->value()) : Json();
  }
  findings.fact("processes as the device plugin lists them", list, "MiB");
  for (const Holder& holder : holders) {
    const std::string problem = problem_with(use, holder);
    findings.expect(fmt::format("the program that holds {} MiB is listed", holder.mib),
                    problem.empty(), problem);
  }
}

}  // namespace

Result<void> check_nvml_fields(const Trial& trial, Findings& findings) {
  const auto node = look_at_node(trial);
  if (!node) return node.error();
  const auto nvml = NvmlCard::open(trial, node->card.uuid);
  if (!nvml) return nvml.error();
  findings.fact("source", node->driver);
  findings.fact("functions that are absent", absent_functions((*nvml)->library().functions()));
  const auto report = ask_nvidia_smi(trial);
  if (!report) return report.error();
  const auto card = report->cards.find(node->card.uuid.str());
  findings.expect("nvidia-smi lists the card", card != report->cards.end(), "it does not");
  if (card == report->cards.end()) return {};
  findings.expect("driver version is that of nvidia-smi",
                  node->driver.find("driver " + report->driver + ")") != std::string::npos,
                  "nvidia-smi says " + report->driver + ", NVML " + node->driver);
  compare_card(findings, *node, **nvml, card->second);
  return {};
}

Result<void> check_process_lists(const Trial& trial, Findings& findings) {
  const auto node = look_at_node(trial);
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
  look_at_raw_lists(**nvml, findings);
  look_at_our_list(trial, *node, *holders, findings);
  if (const auto report = ask_nvidia_smi(trial)) {
    Json list = Json::object();
    const auto card = report->cards.find(node->card.uuid.str());
    if (card != report->cards.end()) {
      for (const SmiProcess& process : card->second.processes) {
        list[std::to_string(process.pid)] = process.type + " " + process.memory;
      }
    }
    findings.fact("processes of nvidia-smi", list);
  }
  return {};
}

Result<void> check_memory(const Trial& trial, Findings& findings) {
  const auto node = look_at_node(trial);
  if (!node) return node.error();
  const auto nvml = NvmlCard::open(trial, node->card.uuid);
  if (!nvml) return nvml.error();
  const auto before = (*nvml)->memory();
  if (!before) return error("this driver has no nvmlDeviceGetMemoryInfo_v2");
  const std::int64_t announced = node->card.memory.value();
  const auto mib = [](std::uint64_t bytes) {
    return static_cast<std::int64_t>(bytes / kBytesPerMiB);
  };
  findings.fact("announced by the device plugin", announced, "MiB");
  findings.fact("total", mib(before->total), "MiB");
  findings.fact("reserved", mib(before->reserved), "MiB");
  auto holder = start_and_wait(program_on_node(trial, *node, {"hold", "0"}));
  if (!holder) return holder.error();
  const auto with_context = (*nvml)->memory();
  findings.fact("total for a program", number_of(*holder, "total_mib"), "MiB");
  findings.fact("free for the first program", number_of(*holder, "free_mib"), "MiB");
  if (with_context) {
    findings.fact("used by one context", mib(with_context->used) - mib(before->used), "MiB");
  }
  holder->kill();
  const auto largest = run_to_end(
      program_on_node(trial, *node, {"largest", std::to_string(announced)}), kProgramTimeout);
  if (!largest) return largest.error();
  findings.fact("largest allocation", number_of(*largest, "largest_mib"), "MiB");
  findings.fact("error beyond", largest->value("beyond"));
  findings.expect("the announced memory is without what the driver reserves",
                  announced <= mib(before->total - before->reserved),
                  fmt::format("{} MiB are announced, {} of them are reserved: shares that add up "
                              "to the card cannot all be used",
                              announced, mib(before->reserved)));
  return {};
}

}  // namespace mgpu::gpu_trial
