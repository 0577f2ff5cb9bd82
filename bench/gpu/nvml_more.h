// Functions of NVML that the trial asks beside those that the device plugin uses, bound at run
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
#include "plugin/cards/nvml_library.h"

namespace mgpu::gpu_trial {

// The entries of a process list as NVML writes them.
struct RawProcesses {
  int code = 0;
  unsigned count = 0;
  std::vector<unsigned char> bytes;  // kRawProcessFill where nothing was written
  std::string function;
};
inline constexpr unsigned char kRawProcessFill = 0xA5;

struct RawProcess {
  std::uint32_t pid = 0;
  std::uint64_t used_bytes = 0;
};

// nvmlComputeMode_t: 0 default, 2 prohibited, 3 exclusive process.
inline constexpr unsigned kExclusiveProcess = 3;

// NVML, opened for the life of this object, and one card of it.
class NvmlCard {
 public:
  // Errors: no NVML, or no card with this UUID.
  static Result<std::unique_ptr<NvmlCard>> open(const Trial& trial, const CardUuid& uuid);
  ~NvmlCard();

  const plugin::nvml::Library& library() const { return *library_; }
  plugin::nvml::Device device() const { return device_; }

  // Whether this driver has the function.
  bool has(const std::string& function) const;
  // A number that a function writes: "nvmlDeviceGetComputeMode". None: it is absent or refuses.
  std::optional<unsigned> number(const std::string& function) const;
  Result<void> set_compute_mode(unsigned mode) const;
  std::optional<std::string> compute_capability() const;  // "9.0"
  // nvmlDeviceGetComputeRunningProcesses with this suffix, "_v2", with room for any entry size.
  RawProcesses compute_processes(const std::string& suffix) const;
  // Bytes of the card: total, reserved, used.
  std::optional<plugin::nvml::MemoryV2> memory() const;

 private:
  NvmlCard(std::shared_ptr<const plugin::nvml::Library> library, void* more);

  std::shared_ptr<const plugin::nvml::Library> library_;
  void* const more_;  // the same library once more, for dlsym
  plugin::nvml::Device device_ = nullptr;
};

// The size of the entries that were written, from where the writing ended: 24 or 32 bytes. None:
// fewer than two entries, or an end that fits neither.
std::optional<std::size_t> entry_bytes_of(const RawProcesses& list);
// The entries, taken as `entry_bytes` long.
std::vector<RawProcess> entries_of(const RawProcesses& list, std::size_t entry_bytes);

}  // namespace mgpu::gpu_trial
