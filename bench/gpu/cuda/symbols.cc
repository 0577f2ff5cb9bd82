// Whether cuGetProcAddress, by which the CUDA runtime finds the driver's functions, answers with
// the addresses that dlsym gives. A library that puts itself before libcuda relies on it.
#include <array>
#include <string>
#include <vector>

#include "bench/gpu/cuda/programs.h"

namespace mgpu::gpu_trial::cuda {
namespace {

// Functions that allocate, free, launch and report memory, without the versions of their names.
constexpr std::array kNames = {"cuInit",
                               "cuDriverGetVersion",
                               "cuDeviceGet",
                               "cuDeviceGetCount",
                               "cuDeviceTotalMem",
                               "cuDeviceGetAttribute",
                               "cuDevicePrimaryCtxRetain",
                               "cuDevicePrimaryCtxRelease",
                               "cuDevicePrimaryCtxReset",
                               "cuCtxCreate",
                               "cuCtxDestroy",
                               "cuCtxSetCurrent",
                               "cuCtxSynchronize",
                               "cuModuleLoadData",
                               "cuModuleLoadDataEx",
                               "cuModuleGetFunction",
                               "cuLibraryLoadData",
                               "cuLibraryGetKernel",
                               "cuMemGetInfo",
                               "cuMemAlloc",
                               "cuMemAllocPitch",
                               "cuMemAllocManaged",
                               "cuMemAllocHost",
                               "cuMemHostAlloc",
                               "cuMemFree",
                               "cuMemFreeHost",
                               "cuMemAllocAsync",
                               "cuMemAllocFromPoolAsync",
                               "cuMemFreeAsync",
                               "cuMemPoolCreate",
                               "cuMemPoolDestroy",
                               "cuMemPoolGetAttribute",
                               "cuMemPoolTrimTo",
                               "cuMemCreate",
                               "cuMemRelease",
                               "cuMemMap",
                               "cuMemUnmap",
                               "cuMemRetainAllocationHandle",
                               "cuMemExportToShareableHandle",
                               "cuMemImportFromShareableHandle",
                               "cuIpcGetMemHandle",
                               "cuIpcOpenMemHandle",
                               "cuIpcCloseMemHandle",
                               "cuArrayCreate",
                               "cuArray3DCreate",
                               "cuArrayDestroy",
                               "cuMipmappedArrayCreate",
                               "cuMipmappedArrayDestroy",
                               "cuMemcpy",
                               "cuMemcpyAsync",
                               "cuMemcpyHtoD",
                               "cuMemcpyDtoH",
                               "cuMemsetD8",
                               "cuLaunchKernel",
                               "cuLaunchKernelEx",
                               "cuLaunchCooperativeKernel",
                               "cuLaunchHostFunc",
                               "cuStreamCreate",
                               "cuStreamSynchronize",
                               "cuStreamBeginCapture",
                               "cuStreamEndCapture",
                               "cuGraphAddMemAllocNode",
                               "cuGraphAddNode",
                               "cuGraphInstantiate",
                               "cuGraphLaunch",
                               "cuDeviceGetGraphMemAttribute",
                               "cuGetProcAddress",
                               "cuGetExportTable"};
constexpr std::array kVersions = {"", "_v2", "_v3", "_v4"};
constexpr std::array kStreams = {"", "_ptsz", "_ptds"};
constexpr std::uint64_t kLegacyStream = 1;
constexpr std::uint64_t kStreamOfEachThread = 2;

bool is_known_to_dlsym(const Driver& driver, const std::string& name, const void* address) {
  for (const char* const version : kVersions) {
    for (const char* const stream : kStreams) {
      if (driver.symbol((name + version + stream).c_str()) == address) return true;
    }
  }
  return false;
}

struct Counts {
  unsigned same = 0;
  unsigned other = 0;
  unsigned absent = 0;
  std::string other_names;
};

void count(const Driver& driver, GetProcAddress* get, int version, std::uint64_t stream,
           Counts& counts) {
  for (const char* const name : kNames) {
    void* address = nullptr;
    int status = 0;
    if (get(name, &address, version, stream, &status) != kSuccess || address == nullptr) {
      ++counts.absent;
    } else if (is_known_to_dlsym(driver, name, address)) {
      ++counts.same;
    } else {
      ++counts.other;
      counts.other_names += (counts.other_names.empty() ? "" : ",") + std::string(name);
    }
  }
}

}  // namespace

int symbols(const Driver& driver) {
  auto* const get = reinterpret_cast<GetProcAddress*>(driver.symbol("cuGetProcAddress_v2"));
  if (get == nullptr) throw Failure("dlsym", "libcuda.so.1 has no cuGetProcAddress_v2");
  int version = 0;
  // Both answer without a device, too.
  print("init", driver.name_of(driver.init(0)));
  driver.check("cuDriverGetVersion", driver.driver_version(&version));
  Counts counts;
  // A program requests the version with which it was built.
  for (const int asked : {11'080, 12'000, version}) {
    if (asked > version) continue;
    count(driver, get, asked, kLegacyStream, counts);
    count(driver, get, asked, kStreamOfEachThread, counts);
  }
  print("cuda_version", static_cast<unsigned>(version));
  print("same", counts.same);
  print("other", counts.other);
  print("absent", counts.absent);
  print("other_names", counts.other_names);
  return 0;
}

}  // namespace mgpu::gpu_trial::cuda
