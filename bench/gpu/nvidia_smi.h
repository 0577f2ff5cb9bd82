// The output of nvidia-smi, for comparison with the device plugin's reading of NVML. Home of
// Boost.PropertyTree.
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
  // Texts by their path below <gpu>, such as "143771 MiB" for "fb_memory_usage.total".
  std::map<std::string, std::string> fields;
  std::vector<SmiProcess> processes;

  // Returns an empty text if nvidia-smi has no such field.
  std::string field(const std::string& path) const;
};

struct SmiReport {
  std::string driver;
  std::string cuda;
  std::map<std::string, SmiCard> cards;  // by UUID
};

// Runs nvidia-smi -q -x. Errors: it cannot be started, fails, or does not print XML.
Result<SmiReport> query_nvidia_smi(const Trial& trial);
// Errors: the text is not XML, or has no <nvidia_smi_log>.
Result<SmiReport> parse_smi_report(const std::string& xml);

}  // namespace mgpu::gpu_trial
