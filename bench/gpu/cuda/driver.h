// The functions of libcuda.so.1, which is loaded at run time, and one context on the first device.
// The part of the CUDA driver API that the test programs call
// (docs.nvidia.com/cuda/cuda-driver-api) is declared here so that no CUDA toolkit is needed to
// build. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "common/base/symbol.h"

namespace mgpu::gpu_trial::cuda {

// CUresult: cuGetErrorName() names all others.
inline constexpr int kSuccess = 0;

// CUdevice_attribute
enum Attribute : int {
  kMultiprocessorCount = 16,
  kMpsEnabled = 133,  // from CUDA 12.2 on
};

using Device = int;
using DevicePointer = std::uint64_t;
struct ContextHandle;
using Context = ContextHandle*;
struct ModuleHandle;
using Module = ModuleHandle*;
struct FunctionHandle;
using Function = FunctionHandle*;
struct StreamHandle;
using Stream = StreamHandle*;

struct Uuid {
  unsigned char bytes[16];
};

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

// The names and signatures are those that libcuda.so.1 has exported since CUDA 11.
struct Driver {
  // Throws a Failure if the library or one of the functions is missing.
  Driver();

  // The name of an error, such as "CUDA_ERROR_OUT_OF_MEMORY", or "error 1234" if it has no name.
  std::string name_of(int code) const;
  // Throws a Failure if `code` is not kSuccess.
  void check(const char* function, int code) const;

  // A function of the library. Throws a Failure if there is none of this name.
  Symbol function(const char* name) const;

  void* const library;
  int (*init)(unsigned flags) = function("cuInit");
  int (*driver_version)(int* version) = function("cuDriverGetVersion");  // 13000 is CUDA 13.0
  int (*error_name)(int code, const char** text) = function("cuGetErrorName");
  int (*device)(Device* device, int ordinal) = function("cuDeviceGet");
  int (*device_name)(char* name, int bytes, Device device) = function("cuDeviceGetName");
  int (*device_uuid)(Uuid* uuid, Device device) = function("cuDeviceGetUuid_v2");
  int (*device_attribute)(int* value, int attribute,
                          Device device) = function("cuDeviceGetAttribute");
  int (*retain_context)(Context* context, Device device) = function("cuDevicePrimaryCtxRetain");
  int (*set_context)(Context context) = function("cuCtxSetCurrent");
  int (*synchronize)() = function("cuCtxSynchronize");
  int (*load_module)(Module* module, const void* image) = function("cuModuleLoadData");
  int (*get_function)(Function* function, Module module,
                      const char* name) = function("cuModuleGetFunction");
  int (*launch)(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                Stream stream, void** arguments, void** extra) = function("cuLaunchKernel");
  int (*allocate)(DevicePointer* pointer, std::size_t bytes) = function("cuMemAlloc_v2");
  int (*free)(DevicePointer pointer) = function("cuMemFree_v2");
  int (*copy_to_device)(DevicePointer to, const void* from,
                        std::size_t bytes) = function("cuMemcpyHtoD_v2");
  int (*copy_to_host)(void* to, DevicePointer from,
                      std::size_t bytes) = function("cuMemcpyDtoH_v2");
  int (*memory_info)(std::size_t* free, std::size_t* total) = function("cuMemGetInfo_v2");
  std::string path;  // path of the file that the loader chose
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
