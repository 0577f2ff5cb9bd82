#include "bench/gpu/cuda/driver.h"

#include <dlfcn.h>

#include <cstdio>

#include "bench/gpu/cuda/kernels.h"

namespace mgpu::gpu_trial::cuda {
namespace {

constexpr char kLibrary[] = "libcuda.so.1";

std::string loader_error() {
  const char* const text = ::dlerror();
  return text != nullptr ? text : "unknown error";
}

void* loaded() {
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  return library != nullptr ? library : throw Failure("dlopen", loader_error());
}

}  // namespace

Driver::Driver() : library(loaded()) {
  Dl_info where{};
  if (::dladdr(reinterpret_cast<void*>(init), &where) != 0) path = where.dli_fname;
}

Symbol Driver::function(const char* name) const {
  void* const address = ::dlsym(library, name);
  return address != nullptr ? Symbol{address} : throw Failure("dlsym", loader_error());
}

std::string Driver::name_of(int code) const {
  const char* name = nullptr;
  if (error_name(code, &name) == kSuccess && name != nullptr) return name;
  return "error " + std::to_string(code);
}

void Driver::check(const char* function_name, int code) const {
  if (code != kSuccess) throw Failure(function_name, name_of(code));
}

OpenDevice::OpenDevice(const Driver& driver) : driver_(driver) {
  driver.check("cuInit", driver.init(0));
  driver.check("cuDeviceGet", driver.device(&device_, 0));
  Context context = nullptr;
  driver.check("cuDevicePrimaryCtxRetain", driver.retain_context(&context, device_));
  driver.check("cuCtxSetCurrent", driver.set_context(context));
}

int OpenDevice::attribute(Attribute attribute) const {
  int value = 0;
  driver_.check("cuDeviceGetAttribute", driver_.device_attribute(&value, attribute, device_));
  return value;
}

std::string OpenDevice::mps() const {
  int enabled = 0;
  const int code = driver_.device_attribute(&enabled, kMpsEnabled, device_);
  return code == kSuccess ? std::to_string(enabled) : "unknown";
}

std::string OpenDevice::name() const {
  char text[256] = {};
  driver_.check("cuDeviceGetName", driver_.device_name(text, sizeof text - 1, device_));
  return text;
}

std::string OpenDevice::uuid() const {
  Uuid uuid{};
  driver_.check("cuDeviceGetUuid_v2", driver_.device_uuid(&uuid, device_));
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char byte[4];
    std::snprintf(byte, sizeof byte, "%02x", uuid.bytes[i]);
    text += (i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "") + std::string(byte);
  }
  return text;
}

Function OpenDevice::kernel(const char* name) const {
  Module module = nullptr;
  driver_.check("cuModuleLoadData", driver_.load_module(&module, kKernels));
  Function function = nullptr;
  driver_.check("cuModuleGetFunction", driver_.get_function(&function, module, name));
  return function;
}

}  // namespace mgpu::gpu_trial::cuda
