// How programs begin: cuInit, the functions that they find, the texts of errors, and fork.
#include <pthread.h>

#include <cstdlib>
#include <iostream>

#include "test/gpu/driver/process.h"

using namespace mgpu::fake_gpu;

namespace mgpu::fake_gpu {

// In symbols.cc.
int find_function(const char* name, int version, std::uint64_t flags, void** function);

namespace {

void before_fork() {
  process().mutex.lock();
  if (process().machine != nullptr) process().machine->mutex().lock();
}

void after_fork_in_parent() {
  if (process().machine != nullptr) process().machine->mutex().unlock();
  process().mutex.unlock();
}

void after_fork_in_child() {
  Process& p = process();
  if (p.machine != nullptr && !p.forked) p.machine->forget_in_child();
  leave_mps();
  p.forked = p.forked || p.machine != nullptr;
  after_fork_in_parent();
}

// Without the variable there is no card, as on a machine without one.
int open_machine(Process& p) {
  const char* const path = std::getenv("MGPU_FAKE_GPU");
  if (path == nullptr || *path == '\0') return kNoDevice;
  std::string why;
  auto machine = Machine::open(path, why);
  if (machine == nullptr) {
    std::cerr << "fake libcuda.so.1: MGPU_FAKE_GPU: " << why << "\n";
    return kNoDevice;
  }
  machine->enumerate_as_cuda();
  if (machine->card_count() == 0) return kNoDevice;
  if (!machine->join()) return kOutOfMemory;
  p.machine = std::move(machine);
  for (int i = 0; i < p.machine->card_count(); ++i) {
    auto& context = p.primary.emplace_back(std::make_unique<Context>());
    context->card = i;
    context->is_primary = true;
  }
  return kSuccess;
}

}  // namespace

int not_supported() {
  return initialized([] { return kNotSupported; });
}

}  // namespace mgpu::fake_gpu

FAKE_CUDA int cuInit(unsigned flags) {
  if (const int code = fault_of_call("cuInit"); code != kSuccess) return code;
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  if (p.forked) return kNotInitialized;
  if (flags != 0) return kInvalidValue;
  if (p.initialized) return kSuccess;
  if (has_fault("broken")) return kNotReady;
  if (const int code = open_machine(p); code != kSuccess) return code;
  join_mps();
  ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  p.initialized = true;
  fault_at_init();
  return kSuccess;
}

FAKE_CUDA int cuDriverGetVersion(int* version) {
  if (const int code = fault_of_call("cuDriverGetVersion"); code != kSuccess) return code;
  if (version == nullptr) return kInvalidValue;
  // Programs ask before cuInit, too.
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  if (p.forked) return kNotInitialized;
  std::string why;
  const char* const path = std::getenv("MGPU_FAKE_GPU");
  const auto machine = path != nullptr ? Machine::open(path, why) : nullptr;
  *version = machine != nullptr ? machine->cuda_version() : 13'000;
  return kSuccess;
}

namespace {

int error_text(int code, const char* ErrorText::*part, const char** text) {
  if (text == nullptr) return kInvalidValue;
  *text = nullptr;
  for (const ErrorText& error : kErrors) {
    if (error.code == code) *text = error.*part;
  }
  return *text != nullptr ? kSuccess : kInvalidValue;
}

}  // namespace

FAKE_CUDA int cuGetErrorName(int code, const char** text) {
  return error_text(code, &ErrorText::name, text);
}

FAKE_CUDA int cuGetErrorString(int code, const char** text) {
  return error_text(code, &ErrorText::text, text);
}

// --- symbols -------------------------------------------------------------------------------------

// The documents of CUDA 12 say that nothing else is returned where there is no such function.
FAKE_CUDA int cuGetProcAddress_v2(const char* name, void** function, int version,
                                  std::uint64_t flags, int* status) {
  if (name == nullptr || function == nullptr || flags > 2) return kInvalidValue;
  const int found = find_function(name, version, flags, function);
  if (status != nullptr) *status = found;
  return kSuccess;
}

// Those of CUDA 11 say CUDA_ERROR_NOT_FOUND.
FAKE_CUDA int cuGetProcAddress(const char* name, void** function, int version,
                               std::uint64_t flags) {
  const int code = cuGetProcAddress_v2(name, function, version, flags, nullptr);
  return code == kSuccess && *function == nullptr ? kNotFound : code;
}
