// Modules, libraries, functions and streams: what the driver takes for them is not known before, so
// it is measured afterwards (uncounted.cc), and what does not fit is undone. Variables are taken
// with the module, and those of a library when it is used first; that is made to happen where a
// kernel is looked up, and not at its launch.
//
// A launch lets the stacks of its context grow to the local memory of its kernel (contexts.cc).
#include "plugin/share/memory.h"

namespace mgpu::share {
namespace {

Result does_not_fit() {
  count_uncounted(true);  // what is there counts
  return kOutOfMemory;
}

template <class Call>
Result make(Handle* made, Result (*undo)(Handle), Call call) {
  const Result result = call();
  if (result != kSuccess || made == nullptr || count_uncounted(false)) return result;
  undo(*made);
  *made = nullptr;
  return does_not_fit();
}

// What cannot be undone stays.
template <class Call>
Result use(Call call) {
  const Result result = call();
  return result != kSuccess || count_uncounted(false) ? result : does_not_fit();
}

template <class Call>
Result end(Call call) {
  const Result result = call();
  count_uncounted(true);
  return result;
}

constexpr int kLocalBytes = 3;  // CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES
constexpr int kRelaxed = 2;     // CU_STREAM_CAPTURE_MODE_RELAXED

Result check_function(Handle function) {
  int bytes = 0;
  const Result result = REAL(cuFuncGetAttribute)(&bytes, kLocalBytes, function);
  if (result != kSuccess || reserve_local_memory(static_cast<std::uint64_t>(bytes)))
    return kSuccess;
  return kOutOfMemory;
}

Result check_kernel(Handle kernel) {
  Device device = card_at(0).device;
  int bytes = 0;
  Handle function = nullptr;
  const bool has_context = REAL(cuCtxGetDevice)(&device) == kSuccess;
  const Result result = REAL(cuKernelGetAttribute)(&bytes, kLocalBytes, kernel, device);
  if (result == kSuccess && !reserve_local_memory(static_cast<std::uint64_t>(bytes))) {
    return kOutOfMemory;
  }
  if (!has_context) return kSuccess;
  // As at the launch itself, which may be captured.
  int mode = kRelaxed;
  REAL(cuThreadExchangeStreamCaptureMode)(&mode);
  REAL(cuKernelGetFunction)(&function, kernel);
  REAL(cuThreadExchangeStreamCaptureMode)(&mode);
  return kSuccess;
}

template <class Call>
Result get(Handle* list, unsigned count, Result (*check)(Handle), Call call) {
  const Result result = call();
  if (result != kSuccess || list == nullptr || !cards_attached()) return result;
  for (unsigned i = 0; i < count; ++i) {
    if (list[i] != nullptr && check(list[i]) != kSuccess) return kOutOfMemory;
  }
  return count_uncounted(false) ? kSuccess : does_not_fit();
}

}  // namespace
// --- the driver's functions ------------------------------------------------------------

Result cuModuleLoad(Handle* module, const char* file) {
  return make(module, REAL(cuModuleUnload), [&] { return REAL(cuModuleLoad)(module, file); });
}

Result cuModuleLoadData(Handle* module, const void* image) {
  return make(module, REAL(cuModuleUnload), [&] { return REAL(cuModuleLoadData)(module, image); });
}

Result cuModuleLoadDataEx(Handle* module, const void* image, unsigned count, int* options,
                          void** values) {
  return make(module, REAL(cuModuleUnload),
              [&] { return REAL(cuModuleLoadDataEx)(module, image, count, options, values); });
}

Result cuModuleLoadFatBinary(Handle* module, const void* image) {
  return make(module, REAL(cuModuleUnload),
              [&] { return REAL(cuModuleLoadFatBinary)(module, image); });
}

Result cuLibraryLoadData(Handle* library, const void* code, int* compiler, void** compiler_values,
                         unsigned compiler_count, int* options, void** values, unsigned count) {
  return make(library, REAL(cuLibraryUnload), [&] {
    return REAL(cuLibraryLoadData)(library, code, compiler, compiler_values, compiler_count,
                                   options, values, count);
  });
}

Result cuLibraryLoadFromFile(Handle* library, const char* file, int* compiler,
                             void** compiler_values, unsigned compiler_count, int* options,
                             void** values, unsigned count) {
  return make(library, REAL(cuLibraryUnload), [&] {
    return REAL(cuLibraryLoadFromFile)(library, file, compiler, compiler_values, compiler_count,
                                       options, values, count);
  });
}

Result cuModuleUnload(Handle module) {
  return end([&] { return REAL(cuModuleUnload)(module); });
}

Result cuLibraryUnload(Handle library) {
  return end([&] { return REAL(cuLibraryUnload)(library); });
}

Result cuLibraryGetGlobal(Address* address, std::size_t* bytes, Handle library, const char* name) {
  return use([&] { return REAL(cuLibraryGetGlobal)(address, bytes, library, name); });
}

Result cuLibraryGetModule(Handle* module, Handle library) {
  return use([&] { return REAL(cuLibraryGetModule)(module, library); });
}

Result cuKernelGetFunction(Handle* function, Handle kernel) {
  return use([&] { return REAL(cuKernelGetFunction)(function, kernel); });
}

Result cuModuleGetFunction(Handle* function, Handle module, const char* name) {
  return get(function, 1, &check_function,
             [&] { return REAL(cuModuleGetFunction)(function, module, name); });
}

Result cuModuleEnumerateFunctions(Handle* functions, unsigned count, Handle module) {
  return get(functions, count, &check_function,
             [&] { return REAL(cuModuleEnumerateFunctions)(functions, count, module); });
}

Result cuLibraryGetKernel(Handle* kernel, Handle library, const char* name) {
  return get(kernel, 1, &check_kernel,
             [&] { return REAL(cuLibraryGetKernel)(kernel, library, name); });
}

Result cuLibraryEnumerateKernels(Handle* kernels, unsigned count, Handle library) {
  return get(kernels, count, &check_kernel,
             [&] { return REAL(cuLibraryEnumerateKernels)(kernels, count, library); });
}

Result cuStreamCreate(Handle* stream, unsigned flags) {
  return make(stream, REAL(cuStreamDestroy_v2),
              [&] { return REAL(cuStreamCreate)(stream, flags); });
}

Result cuStreamCreateWithPriority(Handle* stream, unsigned flags, int priority) {
  return make(stream, REAL(cuStreamDestroy_v2),
              [&] { return REAL(cuStreamCreateWithPriority)(stream, flags, priority); });
}

Result cuGreenCtxStreamCreate(Handle* stream, Handle context, unsigned flags, int priority) {
  return make(stream, REAL(cuStreamDestroy_v2),
              [&] { return REAL(cuGreenCtxStreamCreate)(stream, context, flags, priority); });
}

Result cuGreenCtxCreate(Handle* context, Handle resources, Device device, unsigned flags) {
  return make(context, REAL(cuGreenCtxDestroy),
              [&] { return REAL(cuGreenCtxCreate)(context, resources, device, flags); });
}

}  // namespace mgpu::share
