// NVML, loaded at run time: its functions, bound by their versioned names.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "plugin/cards/nvml_abi.h"

namespace mgpu::plugin::nvml {

// A list of processes: the function and the size of its entries go together, and are bound
// together.
struct ProcessList {
  DeviceGetProcesses* get = nullptr;
  std::size_t entry_bytes = 0;
  explicit operator bool() const { return get != nullptr; }
};

// Required functions are never null, the others are null where this driver has none.
struct Functions {
  Init* init;
  Shutdown* shutdown;
  ErrorString* error_string;
  DeviceGetCount* device_count;
  DeviceGetHandleByIndex* device_by_index;
  DeviceText* uuid;
  DeviceNumber* minor_number;
  DeviceGetMemoryInfo* memory;

  SystemText* driver_version;
  SystemText* nvml_version;
  DeviceText* name;
  DeviceGetMemoryInfoV2* memory_v2;
  DeviceGetMigMode* mig_mode;
  DeviceGetUtilizationRates* utilization;
  DeviceGetProcessUtilization* process_utilization;
  DeviceGetFieldValues* field_values;
  DeviceGetRemappedRows* remapped_rows;
  DeviceGetEventTypes* event_types;
  DeviceRegisterEvents* register_events;
  EventSetCreate* event_set_create;
  EventSetWait* event_set_wait;
  EventSetFree* event_set_free;
  ProcessList compute;
  ProcessList graphics;
  ProcessList mps;

  bool has_events() const {
    return event_types != nullptr && register_events != nullptr && event_set_create != nullptr &&
           event_set_wait != nullptr && event_set_free != nullptr;
  }
};

// A loaded library; unloaded with its last owner.
class Library {
 public:
  // Errors: none of `names` can be loaded (each with its reason), or the first that can lacks a
  // function we need.
  static Result<std::shared_ptr<const Library>> open(const std::vector<std::string>& names);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const Functions& functions() const { return functions_; }
  const std::string& name() const { return name_; }
  // "Driver Not Loaded (9)"
  std::string describe(int code) const;

 private:
  Library(void* loaded, std::string name) : loaded_(loaded), name_(std::move(name)) {}
  // The first required function that is not there, or null.
  const char* bind();

  void* const loaded_;
  const std::string name_;
  Functions functions_{};
};

// What to do about an error of nvmlInit_v2: "; is the nvidia kernel module loaded?", or nothing.
std::string advice_for(int code);

}  // namespace mgpu::plugin::nvml
