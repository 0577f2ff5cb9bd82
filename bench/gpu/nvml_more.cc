#include "bench/gpu/nvml_more.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <utility>

#include "bench/gpu/node.h"
#include "common/base/text.h"
#include "plugin/cards/nvml/nvml_abi.h"
#include "plugin/cards/nvml/nvml_call.h"
#include "plugin/cards/nvml/nvml_card.h"

namespace mgpu::gpu_trial {
namespace {

using plugin::nvml::Device;
using plugin::nvml::kOk;

}  // namespace

NvmlCard::NvmlCard(std::shared_ptr<const plugin::nvml::Library> library, void* more)
    : library_(std::move(library)), more_(more) {}

NvmlCard::~NvmlCard() {
  library_->functions().shutdown();
  ::dlclose(more_);
}

Result<std::unique_ptr<NvmlCard>> NvmlCard::open(const Trial& trial, const CardUuid& uuid) {
  auto library = plugin::load_nvml(nvml_call_options(trial));
  if (!library) return library.error();
  void* const more = ::dlopen((*library)->name().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (more == nullptr) return error("cannot open NVML once more");
  const plugin::nvml::Functions& f = (*library)->functions();
  if (const int code = f.init(); code != kOk) {
    ::dlclose(more);
    return error("nvmlInit_v2 failed: " + (*library)->describe(code));
  }
  std::unique_ptr<NvmlCard> card(new NvmlCard(*library, more));
  unsigned count = 0;
  f.device_count(&count);
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    if (f.device_by_index(i, &device) != kOk) continue;
    if (plugin::nvml::uuid_of(**library, device) != uuid) continue;
    card->device_ = device;
    return card;
  }
  return error("NVML has no card " + in_quotes(uuid.str()));
}

std::optional<unsigned> NvmlCard::number(const std::string& function) const {
  using Get = int(Device, unsigned*);
  auto* const get = reinterpret_cast<Get*>(::dlsym(more_, function.c_str()));
  unsigned value = 0;
  if (get == nullptr || get(device_, &value) != kOk) return std::nullopt;
  return value;
}

std::optional<std::string> NvmlCard::compute_capability() const {
  using Get = int(Device, int*, int*);
  auto* const get = reinterpret_cast<Get*>(::dlsym(more_, "nvmlDeviceGetCudaComputeCapability"));
  int major = 0;
  int minor = 0;
  if (get == nullptr || get(device_, &major, &minor) != kOk) return std::nullopt;
  return fmt::format("{}.{}", major, minor);
}

std::optional<plugin::nvml::MemoryV2> NvmlCard::memory() const {
  const auto get = library_->functions().memory_v2;
  plugin::nvml::MemoryV2 memory{};
  memory.version = plugin::nvml::kMemoryV2Version;
  if (get == nullptr || get(device_, &memory) != kOk) return std::nullopt;
  return memory;
}

}  // namespace mgpu::gpu_trial
