// Functions of NVML that the trial uses in addition to those of the device plugin, bound at run
// time. Sizes and names are those of nvml.h (docs.nvidia.com/deploy/nvml-api).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "bench/gpu/trial.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "plugin/cards/nvml/nvml_library.h"

namespace mgpu::gpu_trial {

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
  // Total, reserved and used memory of the card in bytes.
  std::optional<plugin::nvml::MemoryV2> memory() const;

 private:
  NvmlCard(std::shared_ptr<const plugin::nvml::Library> library, void* more);

  std::shared_ptr<const plugin::nvml::Library> library_;
  void* const more_;  // another handle of the same library, for dlsym
  plugin::nvml::Device device_ = nullptr;
};

}  // namespace mgpu::gpu_trial
