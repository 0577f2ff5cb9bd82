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

// All of these print `mps`: whether they are clients of MPS.

// device, uuid, multiprocessors, cuda_version, total_mib, free_mib, and result "correct" or
// "wrong".
int vector_add(const Driver& driver);
// total_mib and free_mib as the program sees them, largest_mib of one allocation, the error of the
// smallest that failed (`beyond`, absent where all succeeded), and pieces_mib: the sum of
// allocations of 16 MiB.
int largest(const Driver& driver, unsigned long upto_mib);
// ready=1 once the memory is allocated. Ends at the end of its input.
int hold(const Driver& driver, unsigned long mib);
// multiprocessors and ready=1; then, for each line of the input, `rate` in 10^9 thread iterations
// per second. Ends at the end of its input.
int measure(const Driver& driver, std::chrono::milliseconds duration);
// ready=1 while kernels run; then, about ten times a second, progress=<kernels done> and gap_ms:
// the longest time between the ends of two batches of kernels since it was ready. Work is always in
// flight. Ends at the end of its input.
int busy(const Driver& driver);
// cuda_version; `init`, the error of cuInit; and how many symbols, each asked for at three CUDA
// versions and two kinds of stream, are `same`: cuGetProcAddress answers with an address that dlsym
// gives for some version of that name; `other`: with another one, other_names; `absent`.
int symbols(const Driver& driver);

}  // namespace mgpu::gpu_trial::cuda
