#include "plugin/cards/nvml/nvml_call.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "plugin/cards/driver/driver_files.h"
#include "plugin/cards/nvml/nvml_card.h"

namespace mgpu::plugin {

Result<std::shared_ptr<const nvml::Library>> load_nvml(const NvmlCallOptions& options) {
  return nvml::Library::open(options.libraries.empty()
                                 ? nvml_libraries(options.node_root, options.driver_root)
                                 : options.libraries);
}

Result<std::unique_ptr<OpenNvml>> OpenNvml::open(const NvmlCallOptions& options) {
  auto library = load_nvml(options);
  if (!library) return library.error();
  if (const int code = (*library)->functions().init(); code != nvml::kOk) {
    return error(fmt::format("NVML {}: nvmlInit_v2 failed: {}{}", (*library)->name(),
                             (*library)->describe(code), nvml::advice_for(code)));
  }
  return std::unique_ptr<OpenNvml>(new OpenNvml(*std::move(library)));
}

Result<nvml::Device> OpenNvml::find(const CardUuid& card) const {
  unsigned count = 0;
  if (const int code = functions().device_count(&count); code != nvml::kOk) {
    return failed("nvmlDeviceGetCount_v2", card, code);
  }
  for (unsigned i = 0; i < count; ++i) {
    nvml::Device device = nullptr;
    if (functions().device_by_index(i, &device) != nvml::kOk) continue;
    if (nvml::uuid_of(*library_, device) == card) return device;
  }
  return error(fmt::format("NVML has no card {}", card.str()));
}

Error OpenNvml::failed(const char* function, const CardUuid& card, int code) const {
  return error(
      fmt::format("{} of card {} failed: {}", function, card.str(), library_->describe(code)));
}

Result<void> NvmlCalls::run(std::function<Result<void>()> call) {
  // Shared with the call, which may return after run() has stopped waiting for it.
  const auto outcome = std::make_shared<std::optional<Result<void>>>();
  const MutexLock lock(calls_);
  const bool in_time = thread_.start([outcome, call = std::move(call)] { *outcome = call(); }) &&
                       thread_.wait(timeout_);
  if (!in_time) return error("the NVIDIA driver does not respond to NVML");
  return **outcome;
}

bool NvmlCalls::hangs() {
  const MutexLock lock(calls_);
  return !thread_.wait(std::chrono::milliseconds(0));
}

}  // namespace mgpu::plugin
