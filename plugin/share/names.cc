// The driver's own functions by name: finds them when this library is loaded, and gives programs
// that ask the driver for an address the one of the function that replaces it.
#include <unistd.h>

#include <cstring>

#include "plugin/share/driver.h"
#include "plugin/share/old_libdl.h"

// The driver's own library, where the plugin mounts it in containers. Decided when this library is
// built, as the folder of the pages.
#ifndef MGPU_SHARE_DRIVER
#define MGPU_SHARE_DRIVER "/usr/lib/mgpu/libmgpu-cuda-driver.so"
#endif

namespace mgpu::share {

#define DRIVER_FUNCTION(name, kind) \
  extern "C" __attribute__((visibility("hidden"))) void* mgpu_real_##name;
#include "plugin/share/driver_functions.def"
#undef DRIVER_FUNCTION

namespace {

struct Function {
  const char* name;
  void** real;
};

const Function kFunctions[] = {
#define DRIVER_FUNCTION(name, kind) {#name, &mgpu_real_##name},
#include "plugin/share/driver_functions.def"
#undef DRIVER_FUNCTION
};

struct Replaced {
  const char* name;
  void* ours;
  void** real;
};

const Replaced kReplaced[] = {
#define REPLACED(name, parameters) \
  {#name, reinterpret_cast<void*>(&mgpu::share::name), &mgpu_real_##name},
    MGPU_REPLACED_FUNCTIONS(REPLACED)
#undef REPLACED
};

// A function that this driver lacks. A library cannot leave a name out for some drivers; programs
// that look for one by name alone, without asking for the driver's version, get this error when
// they call it.
Result lacks() {
  return kNotFound;
}

__attribute__((constructor)) void find_real_functions() {
  // By its path and for this library alone. If it were needed by this one, it would be in the
  // global scope of programs that are linked with libcuda.so.1: dlsym(RTLD_NEXT) would find the
  // functions that are replaced, and dlsym() those that are not known here.
  void* const driver = dlopen(MGPU_SHARE_DRIVER, RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) {
    constexpr char kWhy[] =
        "mgpu: CUDA is not available, because " MGPU_SHARE_DRIVER
        " cannot be loaded. Restart the container, and see the log of mgpu-device-plugin if it "
        "happens again.\n";
    const ssize_t written = write(STDERR_FILENO, kWhy, sizeof(kWhy) - 1);
    static_cast<void>(written);  // there is nobody else to tell
  }
  for (const Function& function : kFunctions) {
    void* const found = driver != nullptr ? dlsym(driver, function.name) : nullptr;
    *function.real = found != nullptr ? found : reinterpret_cast<void*>(&lacks);
  }
}

bool is_suffix(const char* text) {
  if (std::strncmp(text, "_v", 2) == 0) {
    text += 2;
    while (*text >= '0' && *text <= '9') ++text;
  }
  return *text == '\0' || std::strcmp(text, "_ptsz") == 0 || std::strcmp(text, "_ptds") == 0;
}

// cuMemAlloc is the base of cuMemAlloc_v2.
bool same_base(const char* name, const char* other) {
  while (*name != '\0' && *name == *other) {
    ++name;
    ++other;
  }
  return is_suffix(name) && is_suffix(other);
}

// The answer of the driver with the address of the function that replaces it. A version of such a
// function that this library does not know does not exist for programs, since it would take memory
// that is not counted.
Result replace(const char* name, void** function, Result result, int* status, Result not_found) {
  constexpr int kSymbolNotFound = 1;
  if (result != kSuccess || name == nullptr || function == nullptr || *function == nullptr) {
    return result;
  }
  bool replaced_base = false;
  for (const Replaced& replaced : kReplaced) {
    if (*replaced.real == *function) {
      *function = replaced.ours;
      return result;
    }
    replaced_base = replaced_base || same_base(name, replaced.name);
  }
  if (!replaced_base) return result;
  *function = nullptr;
  if (status != nullptr) *status = kSymbolNotFound;
  return not_found;
}

}  // namespace
// --- the driver's functions ------------------------------------------------------------

Result cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags) {
  const Result result = REAL(cuGetProcAddress)(name, function, version, flags);
  return replace(name, function, result, nullptr, kNotFound);
}

Result cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags,
                           int* status) {
  const Result result = REAL(cuGetProcAddress_v2)(name, function, version, flags, status);
  return replace(name, function, result, status, kSuccess);  // as the driver does (seen)
}

}  // namespace mgpu::share
