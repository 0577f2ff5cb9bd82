#include "bench/gpu/machine.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <fstream>
#include <string>

#include "bench/gpu/node.h"
#include "bench/gpu/nvml_more.h"

namespace mgpu::gpu_trial {
namespace {

constexpr char kComputeMode[] = "compute mode";
constexpr char kPersistenceMode[] = "persistence mode";
constexpr char kMigMode[] = "MIG mode";

Settings settings_of(const NvmlCard& card) {
  Settings settings;
  settings.compute_mode = card.number("nvmlDeviceGetComputeMode");
  settings.persistence_mode = card.number("nvmlDeviceGetPersistenceMode");
  const gpu::nvml::Functions& f = card.library().functions();
  unsigned current = 0;
  unsigned pending = 0;
  if (f.mig_mode != nullptr && f.mig_mode(card.device(), &current, &pending) == gpu::nvml::kOk) {
    settings.mig_mode = pending;
  }
  return settings;
}

Json or_null(const std::optional<unsigned>& number) {
  return number ? Json(*number) : Json();
}

// PRETTY_NAME of os-release(5).
std::string operating_system() {
  std::ifstream file("/etc/os-release");
  const std::string begin = "PRETTY_NAME=";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(begin)) return line.substr(begin.size());
  }
  return "unknown";
}

Result<void> describe(const Trial& trial, Findings& findings) {
  const auto node = look_at_node(trial);
  if (!node) return node.error();
  const auto card = NvmlCard::open(trial, node->card.uuid);
  if (!card) return card.error();
  findings.fact("card", node->card.uuid.str());
  findings.fact("model", node->card.model);
  findings.fact("memory", node->card.memory.value(), "MiB");
  findings.fact("compute capability", (*card)->compute_capability().value_or("unknown"));
  findings.fact("driver", node->driver);
  utsname system{};
  ::uname(&system);
  findings.fact("kernel", fmt::format("{} {}", system.release, system.machine));
  findings.fact("operating system", operating_system());
  const Settings settings = settings_of(**card);
  findings.fact(kComputeMode, or_null(settings.compute_mode));
  findings.fact(kPersistenceMode, or_null(settings.persistence_mode));
  findings.fact(kMigMode, or_null(settings.mig_mode));
  return {};
}

Result<void> put_back(const Trial& trial, Findings& findings) {
  const auto node = look_at_node(trial);
  if (!node) return node.error();
  const auto card = NvmlCard::open(trial, node->card.uuid);
  if (!card) return card.error();
  const Settings found = settings_of(**card);
  if (found.compute_mode != trial.settings.compute_mode && trial.settings.compute_mode) {
    findings.fact("compute mode that was put back", or_null(found.compute_mode));
    const auto set = (*card)->set_compute_mode(*trial.settings.compute_mode);
    if (!set) return set.error();
  }
  findings.expect("the settings of the card are as they were",
                  settings_of(**card) == trial.settings, "they are not");
  return {};
}

}  // namespace

Check look_at_machine() {
  return {"machine", "Which card is tried?", std::chrono::seconds(60), describe};
}

Settings settings_in(const std::vector<Json>& findings) {
  Settings settings;
  const std::pair<const char*, std::optional<unsigned>*> wanted[] = {
      {kComputeMode, &settings.compute_mode},
      {kPersistenceMode, &settings.persistence_mode},
      {kMigMode, &settings.mig_mode}};
  for (const Json& finding : findings) {
    for (const auto& [name, setting] : wanted) {
      if (finding.value("fact", "") == name && finding["value"].is_number_unsigned()) {
        *setting = finding["value"].get<unsigned>();
      }
    }
  }
  return settings;
}

Check put_settings_back() {
  return {"settings", "Are the settings of the card what they were?", std::chrono::seconds(30),
          put_back};
}

}  // namespace mgpu::gpu_trial
