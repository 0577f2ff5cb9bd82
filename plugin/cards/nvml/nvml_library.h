// NVML, loaded at run time: its functions, bound by their versioned names.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/symbol.h"
#include "plugin/cards/nvml/nvml_abi.h"

namespace mgpu::plugin::nvml {

// A function that lists processes, and the size of the entries that it writes. The versions of the
// function have entries of different sizes, so the two are bound together.
using GetProcesses = int(Device device, unsigned* count, void* processes);
struct ProcessList {
  GetProcesses* get = nullptr;
  std::size_t entry_bytes = 0;
  explicit operator bool() const { return get != nullptr; }
};

// Each has the name that its prototype belongs to: one without a version suffix stands for the
// oldest layout of the function.
struct Functions {
  explicit Functions(void* loaded) : library(loaded) {}

  // Null if the library has no function of this name.
  Symbol find(const std::string& symbol) const;
  Symbol need(const char* symbol);
  ProcessList find_list(const std::string& symbol) const;

  void* const library;
  const char* missing = nullptr;  // the first of those that are needed

  // These are never null, unless one is missing.
  int (*init)() = need("nvmlInit_v2");
  int (*shutdown)() = need("nvmlShutdown");
  const char* (*error_string)(int code) = need("nvmlErrorString");
  int (*device_count)(unsigned* count) = need("nvmlDeviceGetCount_v2");
  int (*device_by_index)(unsigned index, Device* device) = need("nvmlDeviceGetHandleByIndex_v2");
  int (*uuid)(Device device, char* text, unsigned bytes) = need("nvmlDeviceGetUUID");
  int (*minor_number)(Device device, unsigned* number) = need("nvmlDeviceGetMinorNumber");
  int (*memory)(Device device, Memory* memory) = need("nvmlDeviceGetMemoryInfo");

  // These are null if the driver does not have them.
  int (*driver_version)(char* text, unsigned bytes) = find("nvmlSystemGetDriverVersion");
  int (*nvml_version)(char* text, unsigned bytes) = find("nvmlSystemGetNVMLVersion");
  int (*name)(Device device, char* text, unsigned bytes) = find("nvmlDeviceGetName");
  int (*memory_v2)(Device device, MemoryV2* memory) = find("nvmlDeviceGetMemoryInfo_v2");
  int (*mig_mode)(Device device, unsigned* current,
                  unsigned* pending) = find("nvmlDeviceGetMigMode");
  int (*mig_device_count)(Device device, unsigned* most) = find("nvmlDeviceGetMaxMigDeviceCount");
  int (*mig_device)(Device device, unsigned index,
                    Device* instance) = find("nvmlDeviceGetMigDeviceHandleByIndex");
  int (*gpu_instance)(Device instance, unsigned* id) = find("nvmlDeviceGetGpuInstanceId");
  int (*compute_instance)(Device instance, unsigned* id) = find("nvmlDeviceGetComputeInstanceId");
  int (*compute_capability)(Device device, int* major,
                            int* minor) = find("nvmlDeviceGetCudaComputeCapability");
  int (*get_compute_mode)(Device device, unsigned* mode) = find("nvmlDeviceGetComputeMode");
  int (*set_compute_mode)(Device device, unsigned mode) = find("nvmlDeviceSetComputeMode");
  int (*utilization)(Device device, Utilization* rates) = find("nvmlDeviceGetUtilizationRates");
  int (*process_utilization)(Device device, UtilizationSample* samples, unsigned* count,
                             unsigned long long since_us) = find("nvmlDeviceGetProcessUtilization");
  int (*field_values)(Device device, int count,
                      FieldValue* values) = find("nvmlDeviceGetFieldValues");
  int (*remapped_rows)(Device device, unsigned* correctable, unsigned* uncorrectable,
                       unsigned* pending, unsigned* failed) = find("nvmlDeviceGetRemappedRows");
  int (*fabric_info)(Device device, FabricInfo* info) = find("nvmlDeviceGetGpuFabricInfo");
  int (*pci_info)(Device device, PciInfo* info) = find("nvmlDeviceGetPciInfo_v3");
  int (*topology_ancestor)(Device a, Device b,
                           int* level) = find("nvmlDeviceGetTopologyCommonAncestor");
  int (*nvlink_state)(Device device, unsigned link,
                      unsigned* active) = find("nvmlDeviceGetNvLinkState");
  int (*nvlink_remote_pci)(Device device, unsigned link,
                           PciInfo* info) = find("nvmlDeviceGetNvLinkRemotePciInfo_v2");
  int (*nvlink_remote_type)(Device device, unsigned link,
                            int* type) = find("nvmlDeviceGetNvLinkRemoteDeviceType");
  int (*confidential_state)(ConfidentialState* state) = find("nvmlSystemGetConfComputeState");
  int (*confidential_ready)(unsigned* accepting) = find("nvmlSystemGetConfComputeGpusReadyState");
  int (*event_types)(Device device,
                     unsigned long long* types) = find("nvmlDeviceGetSupportedEventTypes");
  int (*register_events)(Device device, unsigned long long types,
                         EventSet set) = find("nvmlDeviceRegisterEvents");
  int (*event_set_create)(EventSet* set) = find("nvmlEventSetCreate");
  int (*event_set_wait)(EventSet set, Event* event,
                        unsigned timeout_ms) = find("nvmlEventSetWait_v2");
  int (*event_set_free)(EventSet set) = find("nvmlEventSetFree");
  int (*set_memory_limits)(Device device,
                           SetMemoryLimits* limits) = find("nvmlDeviceSetMemoryLimits_v1");
  int (*get_memory_limits)(Device device,
                           GetMemoryLimits* limits) = find("nvmlDeviceGetMemoryLimits_v1");
  ProcessList compute = find_list("nvmlDeviceGetComputeRunningProcesses");
  ProcessList graphics = find_list("nvmlDeviceGetGraphicsRunningProcesses");
  ProcessList mps = find_list("nvmlDeviceGetMPSComputeRunningProcesses");

  bool has_events() const {
    return event_types != nullptr && register_events != nullptr && event_set_create != nullptr &&
           event_set_wait != nullptr && event_set_free != nullptr;
  }
  bool has_mig_devices() const {
    return mig_device_count != nullptr && mig_device != nullptr && gpu_instance != nullptr &&
           compute_instance != nullptr;
  }
  bool has_memory_limits() const {
    return set_memory_limits != nullptr && get_memory_limits != nullptr;
  }
};

// A loaded library. It is unloaded with its last owner.
class Library {
 public:
  // Loads the first of `names` that can be loaded. Errors: none can, with the reason of each; or it
  // lacks a required function.
  static Result<std::shared_ptr<const Library>> open(const std::vector<std::string>& names);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const Functions& functions() const { return functions_; }
  const std::string& name() const { return name_; }
  // The file that was loaded: "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1".
  const std::string& file() const { return file_; }
  // "Driver Not Loaded (9)"
  std::string describe(int code) const;

 private:
  Library(void* loaded, std::string name);

  void* const loaded_;
  const std::string name_;
  const std::string file_;
  const Functions functions_{loaded_};
};

// A hint at the cause of an error of nvmlInit_v2, to end a sentence: "; is the nvidia kernel module
// loaded?". Empty for other codes.
std::string advice_for(int code);

}  // namespace mgpu::plugin::nvml
