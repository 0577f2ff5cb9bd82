// A program that uses NVML, for nvml_test.cc: share_nvml_client WAY, where WAY says how it finds
// the library. Prints what it is told of the memory of each card. share_nvml_linked is the same
// program linked with NVML, and has no WAY.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "plugin/cards/nvml/nvml_abi.h"

namespace {

using namespace mgpu::plugin::nvml;

extern "C" int nvmlInit_v2();
extern "C" int nvmlDeviceGetCount_v2(unsigned* count);
extern "C" int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device);
extern "C" int nvmlDeviceGetMemoryInfo(Device device, Memory* info);
extern "C" int nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* info);

#ifdef MGPU_LINKED
#define NVML(name) (&(name))
#else
void* library = nullptr;

void* find(const char* name) {
  void* const found = dlsym(library, name);
  if (found == nullptr) std::printf("%s is not found\n", name);
  return found;
}

void* open_library(const char* way) {
  const char* name = "libnvidia-ml.so.1";
  int flags = RTLD_NOW;
  if (std::strcmp(way, "path") == 0) name = MGPU_SHARE_LIBRARIES "/libnvidia-ml.so.1";
  if (std::strcmp(way, "deepbind") == 0) flags |= RTLD_DEEPBIND;
  if (std::strcmp(way, "global") == 0) flags |= RTLD_GLOBAL;
  if (std::strcmp(way, "namespace") == 0) return dlmopen(LM_ID_NEWLM, name, flags);
  return dlopen(name, flags);
}

#define NVML(name) (reinterpret_cast<decltype(&(name))>(find(#name)))
#endif

unsigned mib(std::uint64_t bytes) {
  return static_cast<unsigned>(bytes >> 20U);
}

void show(Device device) {
  Memory first{};
  MemoryV2 second{};
  const int old_version = NVML(nvmlDeviceGetMemoryInfo_v2)(device, &second);
  second.version = kMemoryV2Version;
  const int first_code = NVML(nvmlDeviceGetMemoryInfo)(device, &first);
  const int second_code = NVML(nvmlDeviceGetMemoryInfo_v2)(device, &second);
  std::printf("%d: %u %u %u, %d: %u %u %u %u, %d\n", first_code, mib(first.total), mib(first.used),
              mib(first.free), second_code, mib(second.total), mib(second.reserved),
              mib(second.used), mib(second.free), old_version);
}

}  // namespace

int main(int count, char** words) {
#ifndef MGPU_LINKED
  const char* const way = count > 1 ? words[1] : "name";
  library = open_library(way);
  if (library == nullptr) return std::puts(dlerror()), 1;
  // Two libraries have this name now, and the first one is ours.
  if (std::strcmp(way, "namespace") != 0 && dlopen("libnvidia-ml.so.1", RTLD_NOW) != library) {
    return std::puts("dlopen() finds another library afterwards"), 1;
  }
#else
  static_cast<void>(count), static_cast<void>(words);
#endif
  unsigned cards = 0;
  if (NVML(nvmlInit_v2)() != 0) return std::puts("nvmlInit_v2 fails"), 1;
  NVML(nvmlDeviceGetCount_v2)(&cards);
  for (unsigned i = 0; i < cards; ++i) {
    Device device = nullptr;
    NVML(nvmlDeviceGetHandleByIndex_v2)(i, &device);
    show(device);
  }
}
