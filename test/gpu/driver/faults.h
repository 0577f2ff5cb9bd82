// Faults of a driver that tests switch on by the variable MGPU_FAKE_GPU_FAULT, which has one of
// them.
#pragma once

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string>
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
//
//   hang <function>          the function does not return
//   crash <function>         it ends the program
//   fail <function> <code>   it returns this result
//   wrong-sum                a kernel that adds computes wrong sums
//
// A function has its exported name, with or without "_v2". mps.h has the faults of limits.
inline bool has_fault(std::string_view name) {
  const char* const fault = std::getenv("MGPU_FAKE_GPU_FAULT");
  return fault != nullptr && name == fault;
}

inline bool refuses(std::string_view name) {
  static int calls = 0;
  return has_fault(name) && ++calls > 5;
}

// What every function calls first. Returns a result.
inline int fault_of_call(std::string_view function) {
  const char* const fault = std::getenv("MGPU_FAKE_GPU_FAULT");
  if (fault == nullptr) return 0;
  std::istringstream words(fault);
  std::string kind;
  std::string wanted;
  int code = 0;
  words >> kind >> wanted >> code;
  if (wanted != function && wanted + "_v2" != function) return 0;
  while (kind == "hang") ::pause();
  if (kind == "crash") ::raise(SIGSEGV);
  return kind == "fail" ? code : 0;
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
