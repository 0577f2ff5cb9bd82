// Functions of NVML that the trial uses in addition to those of the device plugin, bound at run
// time. Sizes and names are those of nvml.h (docs.nvidia.com/deploy/nvml-api).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bench/gpu/trial.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "plugin/cards/nvml/nvml_call.h"
#include "plugin/cards/nvml/nvml_library.h"

namespace mgpu::gpu_trial {

// NVML, which is open during the life of this object, and one of its cards.
class NvmlCard {
 public:
  // Errors: there is no NVML, or no card with this UUID.
  static Result<std::unique_ptr<NvmlCard>> open(const Trial& trial, const CardUuid& uuid);

  const plugin::nvml::Library& library() const { return nvml_->library(); }
  plugin::nvml::Device device() const { return device_; }

  // A number that a function writes, such as "nvmlDeviceGetComputeMode". Not set if the function is
  // missing or fails.
  std::optional<unsigned> number(const std::string& function) const;
  std::optional<std::string> compute_capability() const;  // "9.0"
  // Total, reserved and used memory of the card in bytes.
  std::optional<plugin::nvml::MemoryV2> memory() const;

 private:
  NvmlCard(std::unique_ptr<const plugin::OpenNvml> nvml, plugin::nvml::Device device)
      : nvml_(std::move(nvml)), device_(device) {}

  const std::unique_ptr<const plugin::OpenNvml> nvml_;
  const plugin::nvml::Device device_;
};

}  // namespace mgpu::gpu_trial
