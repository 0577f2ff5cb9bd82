#include "bench/gpu/machine.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/node.h"
#include "bench/gpu/nvml_more.h"
#include "plugin/cards/mps/compute_modes.h"

namespace mgpu::gpu_trial {
namespace {

constexpr char kCard[] = "card";
constexpr char kDeviceFile[] = "device file of the card";
constexpr char kComputeMode[] = "compute mode";
constexpr char kPersistenceMode[] = "persistence mode";
constexpr char kMigMode[] = "MIG mode";

Settings settings_of(const NvmlCard& card) {
  Settings settings;
  settings.compute_mode = card.number("nvmlDeviceGetComputeMode");
  settings.persistence_mode = card.number("nvmlDeviceGetPersistenceMode");
  const plugin::nvml::Functions& f = card.library().functions();
  unsigned current = 0;
  unsigned pending = 0;
  if (f.mig_mode != nullptr && f.mig_mode(card.device(), &current, &pending) == plugin::nvml::kOk) {
    settings.mig_mode = pending;
  }
  return settings;
}

Json or_null(const std::optional<unsigned>& number) {
  return number ? Json(*number) : Json();
}

// Returns PRETTY_NAME of os-release(5).
std::string operating_system() {
  std::ifstream file("/etc/os-release");
  const std::string begin = "PRETTY_NAME=";
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(begin)) continue;
    std::erase(line, '"');
    return line.substr(begin.size());
  }
  return "unknown";
}

std::string or_none(const std::string& text) {
  return text.empty() ? "(none)" : text;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return or_none(value != nullptr ? value : "");
}

std::string cgroup_version() {
  std::error_code failed;
  return std::filesystem::exists("/sys/fs/cgroup/cgroup.controllers", failed) ? "2" : "1 or none";
}

// The programs of the driver in the folder of nvidia-smi, and where GKE has them. Without the
// control program of MPS half of the checks are skipped.
Json programs_of_driver(const Trial& trial) {
  std::set<std::string> paths;
  for (const std::string& folder :
       {std::filesystem::path(find_program(trial.nvidia_smi)).parent_path().string(),
        std::string("/usr/local/nvidia/bin")}) {
    for (const std::string& name : names_in(folder)) {
      if (name.starts_with("nvidia-")) paths.insert(folder + "/" + name);
    }
  }
  return paths;
}

// Facts that can explain why a check cannot be made.
void describe_system(const Trial& trial, Findings& findings) {
  utsname system{};
  ::uname(&system);
  findings.fact("kernel", fmt::format("{} {}", system.release, system.machine));
  findings.fact("operating system", operating_system());
  findings.fact("cgroup version", cgroup_version());
  for (const std::string& program :
       {trial.nvidia_smi, trial.mps_control, std::string("nvidia-cuda-mps-server"),
        std::string("nvidia-modprobe")}) {
    findings.fact(std::filesystem::path(program).filename().string(),
                  or_none(find_program(program)));
  }
  findings.fact("NVIDIA's programs", programs_of_driver(trial));
  findings.fact("LD_LIBRARY_PATH", variable("LD_LIBRARY_PATH"));
  findings.fact("device files before NVML was opened", device_files(trial));
}

Result<void> describe(const Trial& trial, Findings& findings) {
  describe_system(trial, findings);
  const auto node = inspect_node(trial);
  if (!node) return node.error();
  const auto card = NvmlCard::open(trial, node->card.uuid);
  if (!card) return card.error();
  if (!node->card.nodes.empty()) findings.fact(kDeviceFile, node->card.nodes.front().host_path);
  findings.fact(kCard, node->card.uuid.str());
  findings.fact("model", node->card.model);
  findings.fact("memory", node->card.memory.value(), "MiB");
  findings.fact("compute capability", (*card)->compute_capability().value_or("unknown"));
  findings.fact("driver", node->source);
  // Other programs that use the card would change the results.
  const auto memory = (*card)->memory();
  if (memory) findings.fact("memory used at the start", memory->used >> 20, "MiB");
  const Settings settings = settings_of(**card);
  findings.fact(kComputeMode, or_null(settings.compute_mode));
  findings.fact(kPersistenceMode, or_null(settings.persistence_mode));
  findings.fact(kMigMode, or_null(settings.mig_mode));
  return {};
}

Result<void> put_back(const Trial& trial, Findings& findings) {
  // The card of the trial, even if it is unhealthy now.
  const auto card = NvmlCard::open(trial, CardUuid(trial.card));
  if (!card) return card.error();
  plugin::ComputeModes modes(nvml_call_options(trial), trial.modes);
  if (trial.exclusive && modes.changed(CardUuid(trial.card))) {
    findings.fact("compute mode that was restored", or_null(settings_of(**card).compute_mode));
    if (auto set = modes.restore(CardUuid(trial.card)); !set) return set.error();
  }
  findings.expect("the settings of the card are as they were",
                  settings_of(**card) == trial.settings,
                  "they have changed; this trial changes only the compute mode, with --exclusive, "
                  "and resets the card, with --reset");
  return {};
}

std::string text_in(const std::vector<Json>& findings, const char* fact) {
  for (const Json& finding : findings) {
    if (finding.value("fact", "") == fact) return finding["value"];
  }
  return "";
}

}  // namespace

Json device_files(const Trial& trial) {
  std::set<std::string> names = names_in(path_on_node(trial, "/dev"));
  std::erase_if(names, [](const std::string& name) { return !name.starts_with("nvidia"); });
  return names;
}

Check inspect_machine() {
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

std::string card_in(const std::vector<Json>& findings) {
  return text_in(findings, kCard);
}

std::string device_file_in(const std::vector<Json>& findings) {
  return text_in(findings, kDeviceFile);
}

Check put_settings_back() {
  return {"settings", "Are the settings of the card what they were?", std::chrono::seconds(30),
          put_back};
}

}  // namespace mgpu::gpu_trial
