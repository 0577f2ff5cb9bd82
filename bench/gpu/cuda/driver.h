// libcuda.so.1, loaded at run time: its functions, and one context on the first device. For
// programs with one thread.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "bench/gpu/cuda/driver_api.h"

namespace mgpu::gpu_trial::cuda {

// Why the driver refused a call. what() is "<function>: <name of the error>".
class Failure : public std::runtime_error {
 public:
  Failure(std::string call, std::string reason)
      : std::runtime_error(call + ": " + reason),
        call_(std::move(call)),
        reason_(std::move(reason)) {}
  // "cuInit", "dlopen"
  const std::string& call() const { return call_; }
  // "CUDA_ERROR_OUT_OF_MEMORY", or what the loader says
  const std::string& reason() const { return reason_; }

 private:
  std::string call_;
  std::string reason_;
};

// Every function is there once the constructor has returned.
struct Driver {
  // Throws a Failure where the library or one of the functions is not there.
  Driver();

  // "CUDA_ERROR_OUT_OF_MEMORY"; "error 1234" where the driver does not name it.
  std::string name_of(int code) const;
  // Throws a Failure where `code` is not success.
  void check(const char* function, int code) const;
  // The address of a symbol of the library, or null.
  void* symbol(const char* name) const;

  void* library = nullptr;
  std::string path;  // of the file that the loader chose

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

// The first device with its primary context, which stays until the process ends.
class OpenDevice {
 public:
  // Throws a Failure.
  explicit OpenDevice(const Driver& driver);

  // Throws a Failure.
  int attribute(Attribute attribute) const;
  // Whether this program is a client of MPS: "1" or "0", and "unknown" where the driver cannot
  // tell.
  std::string mps() const;
  std::string name() const;
  // "GPU-5c1a3f0e-...", as NVML and nvidia-smi print it.
  std::string uuid() const;
  // A kernel of kernels.h. Throws a Failure.
  Function kernel(const char* name) const;

 private:
  const Driver& driver_;
  Device device_ = 0;
};

}  // namespace mgpu::gpu_trial::cuda
