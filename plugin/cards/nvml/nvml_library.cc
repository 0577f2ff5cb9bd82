#include "plugin/cards/nvml/nvml_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <utility>

#include "common/base/limits.h"
#include "common/base/text.h"

namespace mgpu::plugin::nvml {
namespace {

// The name of a function without a version suffix stands for its oldest layout, so only the exact
// name that the prototype belongs to is looked up.
template <class Function>
bool look_up(void* library, const char* symbol, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, symbol));
  return function != nullptr;
}

// "_v3" has the same content as "_v2", and entries of 16, 24 or 32 bytes, depending on the driver:
// 535.43 to 535.86 write 32 (NVIDIA/go-nvml issue 75, XuehaiPan/nvitop issues 79 and 226).
ProcessList look_up_list(void* library, const std::string& symbol) {
  ProcessList list;
  list.entry_bytes = sizeof(ProcessInfo);
  if (look_up(library, (symbol + "_v2").c_str(), list.get)) return list;
  list.entry_bytes = sizeof(ProcessInfoV1);
  look_up(library, symbol.c_str(), list.get);
  return list;
}

std::string file_of(void* loaded) {
  const link_map* map = nullptr;
  if (::dlinfo(loaded, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return {};
  return map->l_name;
}

}  // namespace

const char* Library::bind() {
  Functions& f = functions_;
  const auto missing = [this](const char* symbol, auto*& function) {
    return look_up(loaded_, symbol, function) ? nullptr : symbol;
  };
  for (const char* const symbol : {
           missing("nvmlInit_v2", f.init),
           missing("nvmlShutdown", f.shutdown),
           missing("nvmlErrorString", f.error_string),
           missing("nvmlDeviceGetCount_v2", f.device_count),
           missing("nvmlDeviceGetHandleByIndex_v2", f.device_by_index),
           missing("nvmlDeviceGetUUID", f.uuid),
           missing("nvmlDeviceGetMinorNumber", f.minor_number),
           missing("nvmlDeviceGetMemoryInfo", f.memory),
       }) {
    if (symbol != nullptr) return symbol;
  }
  look_up(loaded_, "nvmlSystemGetDriverVersion", f.driver_version);
  look_up(loaded_, "nvmlSystemGetNVMLVersion", f.nvml_version);
  look_up(loaded_, "nvmlDeviceGetName", f.name);
  look_up(loaded_, "nvmlDeviceGetMemoryInfo_v2", f.memory_v2);
  look_up(loaded_, "nvmlDeviceGetMigMode", f.mig_mode);
  look_up(loaded_, "nvmlDeviceGetMaxMigDeviceCount", f.mig_device_count);
  look_up(loaded_, "nvmlDeviceGetMigDeviceHandleByIndex", f.mig_device);
  look_up(loaded_, "nvmlDeviceGetGpuInstanceId", f.gpu_instance);
  look_up(loaded_, "nvmlDeviceGetComputeInstanceId", f.compute_instance);
  look_up(loaded_, "nvmlDeviceGetCudaComputeCapability", f.compute_capability);
  look_up(loaded_, "nvmlDeviceGetComputeMode", f.get_compute_mode);
  look_up(loaded_, "nvmlDeviceSetComputeMode", f.set_compute_mode);
  look_up(loaded_, "nvmlDeviceGetUtilizationRates", f.utilization);
  look_up(loaded_, "nvmlDeviceGetProcessUtilization", f.process_utilization);
  look_up(loaded_, "nvmlDeviceGetFieldValues", f.field_values);
  look_up(loaded_, "nvmlDeviceGetRemappedRows", f.remapped_rows);
  look_up(loaded_, "nvmlDeviceGetGpuFabricInfo", f.fabric_info);
  look_up(loaded_, "nvmlDeviceGetPciInfo_v3", f.pci_info);
  look_up(loaded_, "nvmlDeviceGetTopologyCommonAncestor", f.topology_ancestor);
  look_up(loaded_, "nvmlDeviceGetNvLinkState", f.nvlink_state);
  look_up(loaded_, "nvmlDeviceGetNvLinkRemotePciInfo_v2", f.nvlink_remote_pci);
  look_up(loaded_, "nvmlDeviceGetNvLinkRemoteDeviceType", f.nvlink_remote_type);
  look_up(loaded_, "nvmlSystemGetConfComputeState", f.confidential_state);
  look_up(loaded_, "nvmlSystemGetConfComputeGpusReadyState", f.confidential_ready);
  look_up(loaded_, "nvmlDeviceGetSupportedEventTypes", f.event_types);
  look_up(loaded_, "nvmlDeviceRegisterEvents", f.register_events);
  look_up(loaded_, "nvmlEventSetCreate", f.event_set_create);
  look_up(loaded_, "nvmlEventSetWait_v2", f.event_set_wait);
  look_up(loaded_, "nvmlEventSetFree", f.event_set_free);
  look_up(loaded_, "nvmlDeviceSetMemoryLimits_v1", f.set_memory_limits);
  look_up(loaded_, "nvmlDeviceGetMemoryLimits_v1", f.get_memory_limits);
  f.compute = look_up_list(loaded_, "nvmlDeviceGetComputeRunningProcesses");
  f.graphics = look_up_list(loaded_, "nvmlDeviceGetGraphicsRunningProcesses");
  f.mps = look_up_list(loaded_, "nvmlDeviceGetMPSComputeRunningProcesses");
  return nullptr;
}

Result<std::shared_ptr<const Library>> Library::open(const std::vector<std::string>& names) {
  std::string tried;
  for (const std::string& name : names) {
    void* const loaded = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (loaded == nullptr) {
      const char* const why = ::dlerror();
      if (!tried.empty()) tried += "; ";
      tried += cut_text(why != nullptr ? why : "unknown error", kKeptSentenceBytesMax);
      continue;
    }
    const std::shared_ptr<Library> library(new Library(loaded, name));
    if (const char* const symbol = library->bind()) {
      return error(fmt::format("NVML {} has no {}: it is too old or is not NVML", name, symbol));
    }
    return std::shared_ptr<const Library>(library);
  }
  return error(fmt::format("no NVML on this node, is an NVIDIA driver installed? looked for {}",
                           tried.empty() ? "nothing" : tried));
}

Library::Library(void* loaded, std::string name)
    : loaded_(loaded), name_(std::move(name)), file_(file_of(loaded)) {}

Library::~Library() {
  ::dlclose(loaded_);
}

std::string Library::describe(int code) const {
  const char* const text = functions_.error_string(code);
  return fmt::format("{} ({})", text != nullptr ? text : "unknown error", code);
}

std::string advice_for(int code) {
  switch (code) {
    case kDriverNotLoaded:
      return "; is the nvidia kernel module loaded, and /dev/nvidiactl there?";
    case kNoPermission:
      return "; may this process open /dev/nvidiactl?";
    case kVersionMismatch:
      return "; the library and the kernel module are of different drivers: load the module of the "
             "library's driver, or restart the node";
    case kLibraryNotFound:
      return "; a library that NVML needs is not there";
    case kGpuIsLost:
      return "; a card fell off the bus: restart the node";
    default:
      return "";
  }
}

}  // namespace mgpu::plugin::nvml
