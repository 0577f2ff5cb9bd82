// libmgpu-nvml.so, in the place of NVIDIA's libnvidia-ml.so.1: it tells of the memory of a share as
// of a smaller card. It needs the driver's own library, so that programs find all other functions
// there, also those of a driver that is newer than this code.
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "plugin/cards/nvml/nvml_abi.h"
#include "plugin/share/look.h"
#include "plugin/share/old_libdl.h"

namespace mgpu::share {
namespace {

namespace nvml = plugin::nvml;

void* driver = nullptr;

__attribute__((constructor)) void find_driver() {
  // It is loaded, because this library needs it by this path. By its name, which is the same as
  // this library's, the loader would find this one.
  driver = dlopen(MGPU_NVML_DRIVER, RTLD_LAZY | RTLD_NOLOAD);
}

// Calls a function of the driver's own library.
template <class... Arguments>
int call(const char* function, Arguments... arguments) {
  void* const found = driver != nullptr ? dlsym(driver, function) : nullptr;
  if (found == nullptr) return nvml::kFunctionNotFound;
  return reinterpret_cast<int (*)(Arguments...)>(found)(arguments...);
}

// Once: programs ask all the time.
void say_why(const char* folder, Failure failure) {
  static std::atomic<bool> said = false;
  if (said.exchange(true)) return;
  dprintf(STDERR_FILENO,
          "mgpu: NVML does not tell of the memory of this card, because the page of its share, %s, "
          "%s. Restart the container, and see the log of mgpu-device-plugin if it happens again.\n",
          folder, failure);
}

// The share of a card, which has a folder of pages. A part of MIG and a whole card have none.
int find_share(nvml::Device device, bool* found, Look* look) {
  *found = false;
  char text[nvml::kTextBytes];
  std::uint8_t uuid[16] = {};
  const int code = call("nvmlDeviceGetUUID", device, &text[0], unsigned{sizeof(text)});
  if (code != nvml::kOk || !read_uuid(text, uuid)) return code;
  char folder[sizeof(MGPU_SHARE_FOLDER "/") + 40] = MGPU_SHARE_FOLDER "/";
  char name[41];
  write_uuid(uuid, name);
  std::memcpy(folder + std::strlen(folder), name, sizeof(name));
  if (access(folder, F_OK) != 0 && errno == ENOENT) return nvml::kOk;
  const Failure failure = look_at(folder, uuid, look);
  *found = failure == nullptr;
  if (*found) return nvml::kOk;
  say_why(folder, failure);
  return nvml::kUnknown;
}

template <class Info>
int show_share(const char* function, nvml::Device device, Info* info) {
  Look look;
  bool found = false;
  // The driver checks the arguments and the version of the structure.
  int code = call(function, device, info);
  if (code == nvml::kOk) code = find_share(device, &found, &look);
  if (!found) return code;
  if (look.limit_bytes < info->total) info->total = look.limit_bytes;
  const std::uint64_t used = look.used_bytes + look.overhead_bytes;
  info->used = used < info->total ? used : info->total;
  info->free = info->total - info->used;
  if constexpr (requires { info->reserved; }) info->reserved = 0;
  return code;
}

}  // namespace
}  // namespace mgpu::share

// NOLINTBEGIN: the names are NVML's.
extern "C" __attribute__((visibility("default"))) int nvmlDeviceGetMemoryInfo(
    mgpu::plugin::nvml::Device device, mgpu::plugin::nvml::Memory* info) {
  return mgpu::share::show_share("nvmlDeviceGetMemoryInfo", device, info);
}

extern "C" __attribute__((visibility("default"))) int nvmlDeviceGetMemoryInfo_v2(
    mgpu::plugin::nvml::Device device, mgpu::plugin::nvml::MemoryV2* info) {
  return mgpu::share::show_share("nvmlDeviceGetMemoryInfo_v2", device, info);
}
// NOLINTEND
