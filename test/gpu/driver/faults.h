// Faults of a driver that tests switch on by the variable MGPU_FAKE_GPU_FAULT. Each is one that
// programs without a limit would not notice, or that a driver could have.
#pragma once

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string_view>

namespace mgpu::fake_gpu {

//   pool      pools say that they have reserved nothing
//   graph     nodes of graphs say that they allocate nothing
//   memory    cuMemAlloc fails from its sixth call on, whatever is free
//   virtual   cuMemCreate, the same
//   crash     cuMemAllocAsync ends the program
//   second    the driver ends the second program of a container
//   helper    the driver leaves a process that keeps the files of its program open
//   hang      cuMemAllocAsync does not return
//   broken    cuInit fails
inline bool has_fault(std::string_view name) {
  const char* const fault = std::getenv("MGPU_FAKE_GPU_FAULT");
  return fault != nullptr && name == fault;
}

inline bool refuses(std::string_view name) {
  static int calls = 0;
  return has_fault(name) && ++calls > 5;
}

inline void fault_at_init() {
  constexpr pid_t kSecond = 3;  // the first process of a container is 1
  if (has_fault("second") && ::getpid() == kSecond) std::abort();
}

inline void fault_of_pool() {
  if (has_fault("crash")) std::abort();
  while (has_fault("hang")) ::pause();
  static bool helped = false;
  if (helped || !has_fault("helper")) return;
  helped = true;
  // The handlers of fork() would wait for a lock of this process.
  const long child = ::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0);
  while (child == 0) ::pause();
}

}  // namespace mgpu::fake_gpu
