// The programs of mgpu-cuda-program; main.cc says what each does. They throw a Failure where the
// driver refuses a call, and return an exit code.
#pragma once

#include <chrono>
#include <string>

#include "bench/gpu/cuda/driver.h"

namespace mgpu::gpu_trial::cuda {

// Prints "<name>=<value>" as one line of standard output, at once.
void print(const char* name, const std::string& value);
void print(const char* name, unsigned long long value);

// device, uuid, multiprocessors, cuda_version, total_mib, and result "correct" or "wrong".
int vector_add(const Driver& driver);
// total_mib and free_mib as the program sees them, largest_mib of one allocation, the error of the
// smallest that failed (`beyond`, absent where all succeeded), and pieces_mib: the sum of
// allocations of 16 MiB.
int largest(const Driver& driver, unsigned long upto_mib);
// ready=1 once the memory is allocated.
int hold(const Driver& driver, unsigned long mib);
// ready=1 and multiprocessors; then, for each line of the input, `rate`: thousands of thread
// iterations a microsecond.
int measure(const Driver& driver, std::chrono::milliseconds duration);
// ready=1; then progress=<kernels done> several times a second, with work always in flight.
int busy(const Driver& driver);
// symbols, with cuda_version as asked for: `same` where cuGetProcAddress answers with an address
// that dlsym gives for some version of that name, `other` where it answers with another one,
// `absent`; and other_names.
int symbols(const Driver& driver);

}  // namespace mgpu::gpu_trial::cuda
