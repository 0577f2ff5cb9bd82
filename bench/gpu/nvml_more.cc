#include "bench/gpu/nvml_more.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
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

constexpr unsigned kRawProcesses = 64;
constexpr std::size_t kEntryBytesMax = 64;

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

RawProcesses NvmlCard::processes(const std::string& function) const {
  RawProcesses list;
  list.function = function;
  auto* const get =
      reinterpret_cast<plugin::nvml::GetProcesses*>(::dlsym(more_, list.function.c_str()));
  if (get == nullptr) {
    list.code = plugin::nvml::kFunctionNotFound;
    return list;
  }
  list.count = kRawProcesses;
  list.bytes.assign(kRawProcesses * kEntryBytesMax, kRawProcessFill);
  list.code = get(device_, &list.count, list.bytes.data());
  if (list.code != kOk) list.count = 0;
  return list;
}

std::optional<plugin::nvml::MemoryV2> NvmlCard::memory() const {
  const auto get = library_->functions().memory_v2;
  plugin::nvml::MemoryV2 memory{};
  memory.version = plugin::nvml::kMemoryV2Version;
  if (get == nullptr || get(device_, &memory) != kOk) return std::nullopt;
  return memory;
}

std::optional<std::size_t> entry_bytes_of(const RawProcesses& list) {
  if (list.count < 2 || list.count > kRawProcesses) return std::nullopt;
  const auto last = std::find_if(list.bytes.rbegin(), list.bytes.rend(),
                                 [](unsigned char byte) { return byte != kRawProcessFill; });
  const auto written = static_cast<std::size_t>(list.bytes.rend() - last);
  for (const std::size_t size : {24u, 32u, 16u}) {
    // The last bytes of an entry may be padding, which NVML does not write.
    if (written <= list.count * size && written > list.count * size - 8) return size;
  }
  return std::nullopt;
}

std::vector<RawProcess> entries_of(const RawProcesses& list, std::size_t entry_bytes) {
  std::vector<RawProcess> entries;
  for (std::size_t i = 0; i < list.count && (i + 1) * entry_bytes <= list.bytes.size(); ++i) {
    plugin::nvml::ProcessInfoV1 entry{};  // how every version begins
    std::memcpy(&entry, list.bytes.data() + i * entry_bytes, sizeof entry);
    entries.push_back({entry.pid, entry.used});
  }
  return entries;
}

}  // namespace mgpu::gpu_trial
