// The functions of libcuda.so.1, which is loaded at run time, and one context on the first device.
// Not thread-safe.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "bench/gpu/cuda/driver_api.h"

namespace mgpu::gpu_trial::cuda {

// A failed call of the driver. what() is "<function>: <name of the error>".
class Failure : public std::runtime_error {
 public:
  Failure(std::string call, std::string reason)
      : std::runtime_error(call + ": " + reason),
        call_(std::move(call)),
        reason_(std::move(reason)) {}
  // "cuInit", "dlopen"
  const std::string& call() const { return call_; }
  // "CUDA_ERROR_OUT_OF_MEMORY", or the error of the loader
  const std::string& reason() const { return reason_; }

 private:
  std::string call_;
  std::string reason_;
};

struct Driver {
  // Throws a Failure if the library or one of the functions is missing.
  Driver();

  // The name of an error, such as "CUDA_ERROR_OUT_OF_MEMORY", or "error 1234" if it has no name.
  std::string name_of(int code) const;
  // Throws a Failure if `code` is not kSuccess.
  void check(const char* function, int code) const;

  void* library = nullptr;
  std::string path;  // path of the file that the loader chose

  Init* init = nullptr;
  DriverGetVersion* driver_version = nullptr;
  GetErrorText* error_name = nullptr;
  DeviceGet* device = nullptr;
  DeviceGetName* device_name = nullptr;
  DeviceGetUuid* device_uuid = nullptr;
  DeviceGetAttribute* device_attribute = nullptr;
  DevicePrimaryContextRetain* retain_context = nullptr;
  ContextSetCurrent* set_context = nullptr;
  ContextSynchronize* synchronize = nullptr;
  ModuleLoadData* load_module = nullptr;
  ModuleGetFunction* get_function = nullptr;
  LaunchKernel* launch = nullptr;
  MemoryAllocate* allocate = nullptr;
  MemoryFree* free = nullptr;
  MemoryCopyToDevice* copy_to_device = nullptr;
  MemoryCopyToHost* copy_to_host = nullptr;
  MemoryGetInfo* memory_info = nullptr;
};

// The first device with its primary context, which exists until the process ends.
class OpenDevice {
 public:
  // Throws a Failure.
  explicit OpenDevice(const Driver& driver);

  // Throws a Failure.
  int attribute(Attribute attribute) const;
  // Whether this program is a client of MPS: "1", "0", or "unknown" if the driver does not report
  // it.
  std::string mps() const;
  std::string name() const;
  // The UUID as NVML and nvidia-smi print it, such as "GPU-5c1a3f0e-...".
  std::string uuid() const;
  // A kernel of kernels.h. Throws a Failure.
  Function kernel(const char* name) const;

 private:
  const Driver& driver_;
  Device device_ = 0;
};

}  // namespace mgpu::gpu_trial::cuda
