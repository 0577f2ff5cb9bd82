#include "bench/gpu/nvml_more.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "bench/gpu/node.h"
#include "plugin/cards/nvml/nvml_abi.h"

namespace mgpu::gpu_trial {
namespace {

using plugin::nvml::Device;
using plugin::nvml::kOk;

}  // namespace

Result<std::unique_ptr<NvmlCard>> NvmlCard::open(const Trial& trial, const CardUuid& uuid) {
  auto nvml = plugin::OpenNvml::open(nvml_call_options(trial));
  if (!nvml) return nvml.error();
  const auto device = (*nvml)->find(uuid);
  if (!device) return device.error();
  return std::unique_ptr<NvmlCard>(new NvmlCard(*std::move(nvml), *device));
}

std::optional<unsigned> NvmlCard::number(const std::string& function) const {
  using Get = int(Device, unsigned*);
  void* const more = ::dlopen(library().name().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (more == nullptr) return std::nullopt;
  auto* const get = reinterpret_cast<Get*>(::dlsym(more, function.c_str()));
  unsigned value = 0;
  const bool known = get != nullptr && get(device_, &value) == kOk;
  ::dlclose(more);
  return known ? std::optional(value) : std::nullopt;
}

std::optional<std::string> NvmlCard::compute_capability() const {
  const auto get = library().functions().compute_capability;
  int major = 0;
  int minor = 0;
  if (get == nullptr || get(device_, &major, &minor) != kOk) return std::nullopt;
  return fmt::format("{}.{}", major, minor);
}

std::optional<plugin::nvml::MemoryV2> NvmlCard::memory() const {
  const auto get = library().functions().memory_v2;
  plugin::nvml::MemoryV2 memory{};
  memory.version = plugin::nvml::kMemoryV2Version;
  if (get == nullptr || get(device_, &memory) != kOk) return std::nullopt;
  return memory;
}

}  // namespace mgpu::gpu_trial
