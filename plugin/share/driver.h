// NVIDIA's driver interface, as far as this library replaces or calls it. The declarations are
// ours; layouts and values are those of cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mgpu::share {

using Result = int;
using Device = int;
using Handle = void*;  // of a context, stream, pool, array, graph
using Address = unsigned long long;
using OldAddress = unsigned int;  // of the functions before CUDA 3.2

constexpr Result kSuccess = 0;
constexpr Result kOutOfMemory = 2;
constexpr Result kNotInitialized = 3;
constexpr Result kDeviceUnavailable = 46;
constexpr Result kNotFound = 500;
constexpr Result kNotSupported = 801;
constexpr Result kSystemNotReady = 802;

constexpr int kDeviceLocation = 1;
constexpr int kLastHostLocation = 4;  // 2 to 4 are places in the memory of the host
struct Location {
  int type;
  int id;
};
struct AllocationProperties {
  int type;
  int handle_types;
  Location location;
  void* metadata;
  unsigned char flags[8];
};
struct PoolProperties {
  int type;
  int handle_types;
  Location location;
  void* attributes;
  unsigned char rest[64];
};
struct AllocationNode {
  PoolProperties pool;
  const void* access;
  std::size_t access_count;
  std::size_t bytes;
  Address address;
};
template <class Size>
struct ArrayDescriptor {
  Size width;
  Size height;
  int format;
  unsigned channels;
};
template <class Size>
struct Array3dDescriptor {
  Size width;
  Size height;
  Size depth;
  int format;
  unsigned channels;
  unsigned flags;
};
// An entry of cuMemMapArrayAsync.
struct ArrayMapping {
  int resource_type;
  Handle array;
  int part;
  std::uint64_t place[4];
  int operation;
  int handle_type;
  Address handle;
  std::uint64_t offset;
  unsigned devices;
  unsigned flags;
  unsigned reserved[2];
};
// CUlaunchConfig
struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  Handle stream;
  void* attributes;
  unsigned attribute_count;
};
struct IpcHandle {
  char reserved[64];
};
struct Uuid {
  std::uint8_t bytes[16];
};

constexpr int kMultiprocessors = 16;           // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
constexpr int kThreadsPerMultiprocessor = 39;  // ..._MAX_THREADS_PER_MULTIPROCESSOR
constexpr int kComputeMajor = 75;              // ..._COMPUTE_CAPABILITY_MAJOR
constexpr int kComputeMinor = 76;              // ..._COMPUTE_CAPABILITY_MINOR
constexpr int kPoolReserved = 5;               // CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
constexpr int kGraphReserved = 2;              // CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT
constexpr int kPrintfSize = 1;                 // CU_LIMIT_PRINTF_FIFO_SIZE
constexpr int kHeapSize = 2;                   // CU_LIMIT_MALLOC_HEAP_SIZE
constexpr int kStackSize = 0;                  // CU_LIMIT_STACK_SIZE
constexpr int kChildGraphNode = 4;             // CU_GRAPH_NODE_TYPE_GRAPH
constexpr int kAllocationNode = 10;            // CU_GRAPH_NODE_TYPE_MEM_ALLOC
constexpr int kFreeNode = 11;                  // CU_GRAPH_NODE_TYPE_MEM_FREE

}  // namespace mgpu::share

// Functions that are replaced, or that the replacements call. REPLACED(name, parameters) is one of
// the first.
#define MGPU_REPLACED_FUNCTIONS(REPLACED)                                                          \
  REPLACED(cuInit, (unsigned flags))                                                               \
  REPLACED(cuGetProcAddress,                                                                       \
           (const char* name, void** function, int version, std::uint64_t flags))                  \
  REPLACED(cuGetProcAddress_v2,                                                                    \
           (const char* name, void** function, int version, std::uint64_t flags, int* status))     \
  REPLACED(cuMemGetInfo, (unsigned* free, unsigned* total))                                        \
  REPLACED(cuMemGetInfo_v2, (std::size_t * free, std::size_t * total))                             \
  REPLACED(cuDeviceTotalMem, (unsigned* bytes, Device device))                                     \
  REPLACED(cuDeviceTotalMem_v2, (std::size_t * bytes, Device device))                              \
  REPLACED(cuMemAlloc, (OldAddress * address, unsigned bytes))                                     \
  REPLACED(cuMemAlloc_v2, (Address * address, std::size_t bytes))                                  \
  REPLACED(cuMemAllocPitch, (OldAddress * address, unsigned* pitch, unsigned width,                \
                             unsigned height, unsigned element))                                   \
  REPLACED(cuMemAllocPitch_v2, (Address * address, std::size_t * pitch, std::size_t width,         \
                                std::size_t height, unsigned element))                             \
  REPLACED(cuMemAllocManaged, (Address * address, std::size_t bytes, unsigned flags))              \
  REPLACED(cuMemFree, (OldAddress address))                                                        \
  REPLACED(cuMemFree_v2, (Address address))                                                        \
  REPLACED(cuIpcOpenMemHandle, (Address * address, IpcHandle handle, unsigned flags))              \
  REPLACED(cuIpcOpenMemHandle_v2, (Address * address, IpcHandle handle, unsigned flags))           \
  REPLACED(cuIpcCloseMemHandle, (Address address))                                                 \
  REPLACED(cuArrayCreate, (Handle * array, const ArrayDescriptor<unsigned>* descriptor))           \
  REPLACED(cuArrayCreate_v2, (Handle * array, const ArrayDescriptor<std::size_t>* descriptor))     \
  REPLACED(cuArray3DCreate, (Handle * array, const Array3dDescriptor<unsigned>* descriptor))       \
  REPLACED(cuArray3DCreate_v2, (Handle * array, const Array3dDescriptor<std::size_t>* descriptor)) \
  REPLACED(cuArrayDestroy, (Handle array))                                                         \
  REPLACED(cuMipmappedArrayCreate,                                                                 \
           (Handle * array, const Array3dDescriptor<std::size_t>* descriptor, unsigned levels))    \
  REPLACED(cuMipmappedArrayDestroy, (Handle array))                                                \
  REPLACED(cuMemCreate, (Address * handle, std::size_t bytes,                                      \
                         const AllocationProperties* properties, std::uint64_t flags))             \
  REPLACED(cuMemRelease, (Address handle))                                                         \
  REPLACED(cuMemMap, (Address address, std::size_t bytes, std::size_t offset, Address handle,      \
                      std::uint64_t flags))                                                        \
  REPLACED(cuMemUnmap, (Address address, std::size_t bytes))                                       \
  REPLACED(cuMemRetainAllocationHandle, (Address * handle, void* address))                         \
  REPLACED(cuMemExportToShareableHandle,                                                           \
           (void* exported, Address handle, int type, std::uint64_t flags))                        \
  REPLACED(cuMemGetHandleForAddressRange,                                                          \
           (void* exported, Address address, std::size_t bytes, int type, std::uint64_t flags))    \
  REPLACED(cuMemMapArrayAsync, (ArrayMapping * list, unsigned count, Handle stream))               \
  REPLACED(cuMemMapArrayAsync_ptsz, (ArrayMapping * list, unsigned count, Handle stream))          \
  REPLACED(cuMulticastBindMem, (Address object, std::size_t at, Address handle,                    \
                                std::size_t offset, std::size_t bytes, std::uint64_t flags))       \
  REPLACED(cuMulticastBindMem_v2, (Address object, Device device, std::size_t at, Address handle,  \
                                   std::size_t offset, std::size_t bytes, std::uint64_t flags))    \
  REPLACED(cuMulticastBindAddr, (Address object, std::size_t at, Address address,                  \
                                 std::size_t bytes, std::uint64_t flags))                          \
  REPLACED(cuMulticastBindAddr_v2, (Address object, Device device, std::size_t at,                 \
                                    Address address, std::size_t bytes, std::uint64_t flags))      \
  REPLACED(cuMemAllocAsync, (Address * address, std::size_t bytes, Handle stream))                 \
  REPLACED(cuMemAllocAsync_ptsz, (Address * address, std::size_t bytes, Handle stream))            \
  REPLACED(cuMemAllocFromPoolAsync,                                                                \
           (Address * address, std::size_t bytes, Handle pool, Handle stream))                     \
  REPLACED(cuMemAllocFromPoolAsync_ptsz,                                                           \
           (Address * address, std::size_t bytes, Handle pool, Handle stream))                     \
  REPLACED(cuMemFreeAsync, (Address address, Handle stream))                                       \
  REPLACED(cuMemFreeAsync_ptsz, (Address address, Handle stream))                                  \
  REPLACED(cuMemPoolCreate, (Handle * pool, const PoolProperties* properties))                     \
  REPLACED(cuMemPoolDestroy, (Handle pool))                                                        \
  REPLACED(cuMemPoolTrimTo, (Handle pool, std::size_t keep))                                       \
  REPLACED(cuStreamSynchronize, (Handle stream))                                                   \
  REPLACED(cuStreamSynchronize_ptsz, (Handle stream))                                              \
  REPLACED(cuEventSynchronize, (Handle event))                                                     \
  REPLACED(cuCtxSynchronize, ())                                                                   \
  REPLACED(cuCtxSynchronize_v2, (Handle context))                                                  \
  REPLACED(cuGraphInstantiate,                                                                     \
           (Handle * exec, Handle graph, Handle * node, char* log, std::size_t size))              \
  REPLACED(cuGraphInstantiate_v2,                                                                  \
           (Handle * exec, Handle graph, Handle * node, char* log, std::size_t size))              \
  REPLACED(cuGraphInstantiateWithFlags, (Handle * exec, Handle graph, std::uint64_t flags))        \
  REPLACED(cuGraphInstantiateWithParams, (Handle * exec, Handle graph, void* parameters))          \
  REPLACED(cuGraphInstantiateWithParams_ptsz, (Handle * exec, Handle graph, void* parameters))     \
  REPLACED(cuGraphUpload, (Handle exec, Handle stream))                                            \
  REPLACED(cuGraphUpload_ptsz, (Handle exec, Handle stream))                                       \
  REPLACED(cuGraphLaunch, (Handle exec, Handle stream))                                            \
  REPLACED(cuGraphLaunch_ptsz, (Handle exec, Handle stream))                                       \
  REPLACED(cuLaunchKernel, (Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,    \
                            unsigned block_x, unsigned block_y, unsigned block_z,                  \
                            unsigned shared_bytes, Handle stream, void** values, void** extra))    \
  REPLACED(cuLaunchKernel_ptsz,                                                                    \
           (Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,  \
            unsigned block_y, unsigned block_z, unsigned shared_bytes, Handle stream,              \
            void** values, void** extra))                                                          \
  REPLACED(                                                                                        \
      cuLaunchCooperativeKernel,                                                                   \
      (Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,       \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, Handle stream, void** values))   \
  REPLACED(                                                                                        \
      cuLaunchCooperativeKernel_ptsz,                                                              \
      (Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,       \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, Handle stream, void** values))   \
  REPLACED(cuLaunchKernelEx,                                                                       \
           (const LaunchConfig* config, Handle function, void** values, void** extra))             \
  REPLACED(cuLaunchKernelEx_ptsz,                                                                  \
           (const LaunchConfig* config, Handle function, void** values, void** extra))             \
  REPLACED(cuLaunch, (Handle function))                                                            \
  REPLACED(cuLaunchGrid, (Handle function, int width, int height))                                 \
  REPLACED(cuLaunchGridAsync, (Handle function, int width, int height, Handle stream))             \
  REPLACED(cuStreamDestroy, (Handle stream))                                                       \
  REPLACED(cuStreamDestroy_v2, (Handle stream))                                                    \
  REPLACED(cuGraphExecDestroy, (Handle exec))                                                      \
  REPLACED(cuDeviceGraphMemTrim, (Device device))                                                  \
  REPLACED(cuCtxCreate, (Handle * context, unsigned flags, Device device))                         \
  REPLACED(cuCtxCreate_v2, (Handle * context, unsigned flags, Device device))                      \
  REPLACED(cuCtxCreate_v3,                                                                         \
           (Handle * context, void* affinity, int count, unsigned flags, Device device))           \
  REPLACED(cuCtxCreate_v4, (Handle * context, void* parameters, unsigned flags, Device device))    \
  REPLACED(cuCtxDestroy, (Handle context))                                                         \
  REPLACED(cuCtxDestroy_v2, (Handle context))                                                      \
  REPLACED(cuDevicePrimaryCtxRetain, (Handle * context, Device device))                            \
  REPLACED(cuDevicePrimaryCtxRelease, (Device device))                                             \
  REPLACED(cuDevicePrimaryCtxRelease_v2, (Device device))                                          \
  REPLACED(cuDevicePrimaryCtxReset, (Device device))                                               \
  REPLACED(cuDevicePrimaryCtxReset_v2, (Device device))                                            \
  REPLACED(cuCheckpointProcessRestore, (int pid, void** arguments))                                \
  REPLACED(cuCtxSetLimit, (int limit, std::size_t value))                                          \
  REPLACED(cuModuleUnload, (Handle module))                                                        \
  REPLACED(cuLibraryUnload, (Handle library))                                                      \
  REPLACED(cuModuleLoad, (Handle * module, const char* file))                                      \
  REPLACED(cuModuleLoadData, (Handle * module, const void* image))                                 \
  REPLACED(cuModuleLoadDataEx,                                                                     \
           (Handle * module, const void* image, unsigned count, int* options, void** values))      \
  REPLACED(cuModuleLoadFatBinary, (Handle * module, const void* image))                            \
  REPLACED(cuModuleGetFunction, (Handle * function, Handle module, const char* name))              \
  REPLACED(cuModuleEnumerateFunctions, (Handle * functions, unsigned count, Handle module))        \
  REPLACED(cuLibraryLoadData,                                                                      \
           (Handle * library, const void* code, int* compiler, void** compiler_values,             \
            unsigned compiler_count, int* options, void** values, unsigned count))                 \
  REPLACED(cuLibraryLoadFromFile,                                                                  \
           (Handle * library, const char* file, int* compiler, void** compiler_values,             \
            unsigned compiler_count, int* options, void** values, unsigned count))                 \
  REPLACED(cuLibraryGetGlobal,                                                                     \
           (Address * address, std::size_t * bytes, Handle library, const char* name))             \
  REPLACED(cuLibraryGetModule, (Handle * module, Handle library))                                  \
  REPLACED(cuLibraryGetKernel, (Handle * kernel, Handle library, const char* name))                \
  REPLACED(cuLibraryEnumerateKernels, (Handle * kernels, unsigned count, Handle library))          \
  REPLACED(cuKernelGetFunction, (Handle * function, Handle kernel))                                \
  REPLACED(cuStreamCreate, (Handle * stream, unsigned flags))                                      \
  REPLACED(cuStreamCreateWithPriority, (Handle * stream, unsigned flags, int priority))            \
  REPLACED(cuGreenCtxStreamCreate,                                                                 \
           (Handle * stream, Handle context, unsigned flags, int priority))                        \
  REPLACED(cuGreenCtxCreate, (Handle * context, Handle resources, Device device, unsigned flags))

#define MGPU_CALLED_FUNCTIONS(CALLED)                                                     \
  CALLED(cuThreadExchangeStreamCaptureMode, (int* mode))                                  \
  CALLED(cuFuncGetAttribute, (int* value, int attribute, Handle function))                \
  CALLED(cuKernelGetAttribute, (int* value, int attribute, Handle kernel, Device device)) \
  CALLED(cuEventCreate, (Handle * event, unsigned flags))                                 \
  CALLED(cuEventDestroy_v2, (Handle event))                                               \
  CALLED(cuEventRecord, (Handle event, Handle stream))                                    \
  CALLED(cuEventRecord_ptsz, (Handle event, Handle stream))                               \
  CALLED(cuEventQuery, (Handle event))                                                    \
  CALLED(cuPointerGetAttribute, (void* value, int attribute, Address pointer))            \
  CALLED(cuGreenCtxDestroy, (Handle context))                                             \
  CALLED(cuDeviceGet, (Device * device, int ordinal))                                     \
  CALLED(cuDeviceGetCount, (int* count))                                                  \
  CALLED(cuDeviceGetUuid, (Uuid * uuid, Device device))                                   \
  CALLED(cuDeviceGetUuid_v2, (Uuid * uuid, Device device))                                \
  CALLED(cuDeviceGetAttribute, (int* value, int attribute, Device device))                \
  CALLED(cuDeviceGetMemPool, (Handle * pool, Device device))                              \
  CALLED(cuDeviceGetDefaultMemPool, (Handle * pool, Device device))                       \
  CALLED(cuDeviceGetGraphMemAttribute, (Device device, int attribute, void* value))       \
  CALLED(cuDevicePrimaryCtxGetState, (Device device, unsigned* flags, int* active))       \
  CALLED(cuMemGetAddressRange_v2, (Address * base, std::size_t * bytes, Address address)) \
  CALLED(cuMemGetAllocationPropertiesFromHandle,                                          \
         (AllocationProperties * properties, Address handle))                             \
  CALLED(cuCtxPushCurrent_v2, (Handle context))                                           \
  CALLED(cuCtxPopCurrent_v2, (Handle * context))                                          \
  CALLED(cuCtxGetCurrent, (Handle * context))                                             \
  CALLED(cuCtxGetDevice, (Device * device))                                               \
  CALLED(cuCtxGetLimit, (std::size_t * value, int limit))                                 \
  CALLED(cuStreamGetCtx, (Handle stream, Handle * context))                               \
  CALLED(cuStreamGetDevice, (Handle stream, Device * device))                             \
  CALLED(cuStreamIsCapturing, (Handle stream, int* status))                               \
  CALLED(cuStreamIsCapturing_ptsz, (Handle stream, int* status))                          \
  CALLED(cuStreamGetCaptureInfo, (Handle stream, int* status, std::uint64_t* id))         \
  CALLED(cuStreamGetCaptureInfo_ptsz, (Handle stream, int* status, std::uint64_t* id))    \
  CALLED(cuMemPoolGetAttribute, (Handle pool, int attribute, void* value))                \
  CALLED(cuGraphGetNodes, (Handle graph, Handle * nodes, std::size_t * count))            \
  CALLED(cuGraphNodeGetType, (Handle node, int* type))                                    \
  CALLED(cuGraphMemAllocNodeGetParams, (Handle node, AllocationNode * parameters))        \
  CALLED(cuGraphChildGraphNodeGetGraph, (Handle node, Handle * graph))

// The driver's own function is in a slot that trampolines.S defines and names.cc fills.
// REAL(cuInit)(0) calls it.
#define MGPU_DECLARE(name, parameters)                                        \
  __attribute__((visibility("default"))) mgpu::share::Result name parameters; \
  extern __attribute__((visibility("hidden"))) void* mgpu_real_##name;
extern "C" {
namespace mgpu::share {
MGPU_REPLACED_FUNCTIONS(MGPU_DECLARE)
MGPU_CALLED_FUNCTIONS(MGPU_DECLARE)
}  // namespace mgpu::share
}
#undef MGPU_DECLARE
#define REAL(name) (reinterpret_cast<decltype(&(name))>(mgpu_real_##name))
