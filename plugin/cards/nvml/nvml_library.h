// NVML, loaded at run time: its functions, bound by their versioned names.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
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

struct Functions {
  // These are never null.
  int (*init)();
  int (*shutdown)();
  const char* (*error_string)(int code);
  int (*device_count)(unsigned* count);
  int (*device_by_index)(unsigned index, Device* device);
  int (*uuid)(Device device, char* text, unsigned bytes);
  int (*minor_number)(Device device, unsigned* number);
  int (*memory)(Device device, Memory* memory);

  // These are null if the driver does not have them.
  int (*driver_version)(char* text, unsigned bytes);
  int (*nvml_version)(char* text, unsigned bytes);
  int (*name)(Device device, char* text, unsigned bytes);
  int (*memory_v2)(Device device, MemoryV2* memory);
  int (*mig_mode)(Device device, unsigned* current, unsigned* pending);
  int (*mig_device_count)(Device device, unsigned* most);
  int (*mig_device)(Device device, unsigned index, Device* instance);
  int (*gpu_instance)(Device instance, unsigned* id);
  int (*compute_instance)(Device instance, unsigned* id);
  int (*compute_capability)(Device device, int* major, int* minor);
  int (*get_compute_mode)(Device device, unsigned* mode);
  int (*set_compute_mode)(Device device, unsigned mode);
  int (*utilization)(Device device, Utilization* rates);
  int (*process_utilization)(Device device, UtilizationSample* samples, unsigned* count,
                             unsigned long long since_us);
  int (*field_values)(Device device, int count, FieldValue* values);
  int (*remapped_rows)(Device device, unsigned* correctable, unsigned* uncorrectable,
                       unsigned* pending, unsigned* failed);
  int (*fabric_info)(Device device, FabricInfo* info);
  int (*pci_info)(Device device, PciInfo* info);
  int (*topology_ancestor)(Device a, Device b, int* level);
  int (*nvlink_state)(Device device, unsigned link, unsigned* active);
  int (*nvlink_remote_pci)(Device device, unsigned link, PciInfo* info);
  int (*nvlink_remote_type)(Device device, unsigned link, int* type);
  int (*confidential_state)(ConfidentialState* state);
  int (*confidential_ready)(unsigned* accepting);
  int (*event_types)(Device device, unsigned long long* types);
  int (*register_events)(Device device, unsigned long long types, EventSet set);
  int (*event_set_create)(EventSet* set);
  int (*event_set_wait)(EventSet set, Event* event, unsigned timeout_ms);
  int (*event_set_free)(EventSet set);
  int (*set_memory_limits)(Device device, SetMemoryLimits* limits);
  int (*get_memory_limits)(Device device, GetMemoryLimits* limits);
  ProcessList compute;
  ProcessList graphics;
  ProcessList mps;

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
  // Returns the first required function that is missing, or null.
  const char* bind();

  void* const loaded_;
  const std::string name_;
  const std::string file_;
  Functions functions_{};
};

// A hint at the cause of an error of nvmlInit_v2, to end a sentence: "; is the nvidia kernel module
// loaded?". Empty for other codes.
std::string advice_for(int code);

}  // namespace mgpu::plugin::nvml
