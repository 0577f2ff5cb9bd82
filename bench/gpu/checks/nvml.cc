// Compares the device plugin's reading of NVML with nvidia-smi.
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "bench/gpu/checks/checks.h"
#include "bench/gpu/nvidia_smi.h"
#include "bench/gpu/nvml_more.h"
#include "plugin/cards/nvml/nvml_card.h"

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

// There is a tolerance, because nvidia-smi rounds while the device plugin truncates, and because
// programs may start and end between the two readings.
void compare_mib(Findings& findings, const std::string& what, std::int64_t from_plugin,
                 const std::string& smi, std::int64_t tolerance) {
  findings.fact(what, from_plugin, "MiB");
  findings.fact(what + ", by nvidia-smi", smi);
  const auto mib = amount_in(smi, "MiB");
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

// NVML's compute modes 0 to 3 in nvidia-smi.
std::string mode_text(const std::optional<unsigned>& mode) {
  constexpr std::array kModes = {"Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process"};
  if (!mode) return "N/A";
  return *mode < kModes.size() ? kModes[*mode] : std::to_string(*mode);
}

std::string capability_text(const std::optional<plugin::ComputeCapability>& capability) {
  return capability ? fmt::format("{}.{}", capability->major, capability->minor) : "N/A";
}

// The functions that the device plugin uses and this driver does not have.
Json absent_functions(const plugin::nvml::Functions& f) {
  const std::pair<const char*, bool> functions[] = {
      {"nvmlSystemGetDriverVersion", f.driver_version != nullptr},
      {"nvmlSystemGetNVMLVersion", f.nvml_version != nullptr},
      {"nvmlDeviceGetName", f.name != nullptr},
      {"nvmlDeviceGetMemoryInfo_v2", f.memory_v2 != nullptr},
      {"nvmlDeviceGetMigMode", f.mig_mode != nullptr},
      {"nvmlDeviceGetCudaComputeCapability", f.compute_capability != nullptr},
      {"nvmlDeviceGetComputeMode", f.get_compute_mode != nullptr},
      {"nvmlDeviceSetComputeMode", f.set_compute_mode != nullptr},
      {"nvmlDeviceSetMemoryLimits_v1", f.set_memory_limits != nullptr},
      {"nvmlDeviceGetMemoryLimits_v1", f.get_memory_limits != nullptr},
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
  compare(findings, "compute mode", mode_text(node.card.compute_mode), smi.field("compute_mode"));
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

}  // namespace

Result<void> check_nvml_fields(const Trial& trial, const NodeUnderTest& node, Findings& findings) {
  const auto nvml = NvmlCard::open(trial, node.card.uuid);
  if (!nvml) return nvml.error();
  findings.fact("source", node.source);
  findings.fact("NVML functions that this driver lacks",
                absent_functions((*nvml)->library().functions()));
  const auto report = query_nvidia_smi(trial);
  if (!report) return report.error();
  const auto card = report->cards.find(node.card.uuid.str());
  findings.expect("nvidia-smi lists the card", card != report->cards.end(), "it does not");
  if (card == report->cards.end()) return {};
  compare(findings, "driver version", node.driver_version, report->driver);
  compare_card(findings, node, **nvml, card->second);
  const auto capability = query_compute_capability(trial, node.card.uuid.str());
  if (!capability) {
    findings.fact("compute capability, by nvidia-smi", capability.error().message);
  }
  compare(findings, "compute capability", capability_text(node.card.compute_capability),
          capability ? *capability : "");
  return {};
}

Result<void> check_memory(const Trial& trial, const NodeUnderTest& node, Findings& findings) {
  const auto nvml = NvmlCard::open(trial, node.card.uuid);
  if (!nvml) return nvml.error();
  const auto before = (*nvml)->memory();
  if (!before) return error("this driver has no nvmlDeviceGetMemoryInfo_v2");
  const std::int64_t announced = node.card.memory.value();
  findings.fact("announced by the device plugin", announced, "MiB");
  findings.fact("total", in_mib(before->total), "MiB");
  findings.fact("reserved", in_mib(before->reserved), "MiB");
  auto holder = start_and_wait(program_on_node(trial, node, {"hold", "0"}));
  if (!holder) return holder.error();
  const auto with_context = (*nvml)->memory();
  findings.fact("total for a program", number_of(*holder, "total_mib"), "MiB");
  findings.fact("free for the first program", number_of(*holder, "free_mib"), "MiB");
  if (with_context) {
    findings.fact("used by one context", in_mib(with_context->used) - in_mib(before->used), "MiB");
  }
  static_cast<void>(holder->finish(kProgramTimeout));
  const auto largest = run_to_end(
      program_on_node(trial, node, {"largest", std::to_string(announced)}), kProgramTimeout);
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
