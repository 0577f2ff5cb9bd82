// The part of the CUDA driver API that the test programs call
// (docs.nvidia.com/cuda/cuda-driver-api), declared here so that no CUDA toolkit is needed to build.
// The names and signatures are those that libcuda.so.1 has exported since CUDA 11.
#pragma once

#include <cstddef>
#include <cstdint>

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

using Init = int(unsigned flags);
using DriverGetVersion = int(int* version);  // 13000 is CUDA 13.0
using GetErrorText = int(int code, const char** text);
using DeviceGet = int(Device* device, int ordinal);
using DeviceGetName = int(char* name, int bytes, Device device);
using DeviceGetUuid = int(Uuid* uuid, Device device);
using DeviceGetAttribute = int(int* value, int attribute, Device device);
using DevicePrimaryContextRetain = int(Context* context, Device device);
using ContextSetCurrent = int(Context context);
using ContextSynchronize = int();
using ModuleLoadData = int(Module* module, const void* image);
using ModuleGetFunction = int(Function* function, Module module, const char* name);
using LaunchKernel = int(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                         unsigned block_x, unsigned block_y, unsigned block_z,
                         unsigned shared_bytes, Stream stream, void** arguments, void** extra);
using MemoryAllocate = int(DevicePointer* pointer, std::size_t bytes);
using MemoryFree = int(DevicePointer pointer);
using MemoryCopyToDevice = int(DevicePointer to, const void* from, std::size_t bytes);
using MemoryCopyToHost = int(void* to, DevicePointer from, std::size_t bytes);
using MemoryGetInfo = int(std::size_t* free, std::size_t* total);
}  // namespace mgpu::gpu_trial::cuda
