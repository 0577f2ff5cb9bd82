// Functions of NVML that the trial uses in addition to those of the device plugin, bound at run
// time. Sizes and names are those of nvml.h (docs.nvidia.com/deploy/nvml-api).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/gpu/trial.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "plugin/cards/nvml/nvml_library.h"

namespace mgpu::gpu_trial {

// The entries of a process list as NVML writes them.
struct RawProcesses {
  int code = 0;
  unsigned count = 0;
  std::vector<unsigned char> bytes;  // bytes that were not written are kRawProcessFill
  std::string function;
};
inline constexpr unsigned char kRawProcessFill = 0xA5;

struct RawProcess {
  std::uint32_t pid = 0;
  std::uint64_t used_bytes = 0;
};

// NVML, which is open during the life of this object, and one of its cards.
class NvmlCard {
 public:
  // Errors: there is no NVML, or no card with this UUID.
  static Result<std::unique_ptr<NvmlCard>> open(const Trial& trial, const CardUuid& uuid);
  ~NvmlCard();

  const plugin::nvml::Library& library() const { return *library_; }
  plugin::nvml::Device device() const { return device_; }

  // A number that a function writes, such as "nvmlDeviceGetComputeMode". Not set if the function is
  // missing or fails.
  std::optional<unsigned> number(const std::string& function) const;
  std::optional<std::string> compute_capability() const;  // "9.0"
  // The result of a function such as "nvmlDeviceGetComputeRunningProcesses_v2". The buffer is large
  // enough for any size of entries.
  RawProcesses processes(const std::string& function) const;
  // Total, reserved and used memory of the card in bytes.
  std::optional<plugin::nvml::MemoryV2> memory() const;

 private:
  NvmlCard(std::shared_ptr<const plugin::nvml::Library> library, void* more);

  std::shared_ptr<const plugin::nvml::Library> library_;
  void* const more_;  // another handle of the same library, for dlsym
  plugin::nvml::Device device_ = nullptr;
};

// The size of the written entries, 16, 24 or 32 bytes, derived from the end of the written bytes.
// Not set if there are fewer than two entries, or if the end fits none of these sizes.
std::optional<std::size_t> entry_bytes_of(const RawProcesses& list);
// The entries, if each has `entry_bytes`.
std::vector<RawProcess> entries_of(const RawProcesses& list, std::size_t entry_bytes);

}  // namespace mgpu::gpu_trial
