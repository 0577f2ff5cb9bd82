// The output of nvidia-smi, for comparison with the device plugin's reading of NVML. Home of
// Boost.PropertyTree.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
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
  std::map<std::string, SmiCard> cards{};  // by UUID
};

// Runs nvidia-smi -q -x. Errors: it cannot be started, fails, or does not print XML.
Result<SmiReport> query_nvidia_smi(const Trial& trial);
// The compute capability of a card, "9.0", which the report does not have. Errors: nvidia-smi
// cannot be started, is too old for this field, or does not list the card.
Result<std::string> query_compute_capability(const Trial& trial, const std::string& uuid);
// The value of this card in lines "<uuid>, <value>"; empty if there is none.
std::string value_of_card(const std::string& lines, const std::string& uuid);
// The number in a text of nvidia-smi with this unit, such as "143771 MiB" or "97 %". Not set for
// other texts.
std::optional<std::int64_t> amount_in(std::string_view text, std::string_view unit);
// Errors: the text is not XML, or has no <nvidia_smi_log>.
Result<SmiReport> parse_smi_report(const std::string& xml);

}  // namespace mgpu::gpu_trial
