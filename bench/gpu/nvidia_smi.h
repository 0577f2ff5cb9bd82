// What nvidia-smi says of a card: the other side of each comparison with our reading of NVML. Home
// of Boost.PropertyTree.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/gpu/trial.h"
#include "common/base/result.h"

namespace mgpu::gpu_trial {

struct SmiProcess {
  long pid = 0;
  std::string type;  // "C", "M+C"
  std::string name;
  std::string memory;  // "512 MiB", or "N/A"
};

struct SmiCard {
  // Texts by their path below <gpu>: "fb_memory_usage.total" is "143771 MiB".
  std::map<std::string, std::string> fields;
  std::vector<SmiProcess> processes;

  // Empty where nvidia-smi has no such field.
  std::string field(const std::string& path) const;
};

struct SmiReport {
  std::string driver;
  std::string cuda;
  std::map<std::string, SmiCard> cards;  // by UUID
};

// nvidia-smi -q -x. Errors: it cannot be started, fails, or prints what is no XML.
Result<SmiReport> ask_nvidia_smi(const Trial& trial);
// Errors: not XML, or without <nvidia_smi_log>.
Result<SmiReport> parse_smi_report(const std::string& xml);

}  // namespace mgpu::gpu_trial
