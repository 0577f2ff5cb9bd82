// The programs of mgpu-cuda-program; main.cc describes them. They return an exit code, and throw a
// Failure if a call of the driver fails.
#pragma once

#include <chrono>
#include <string>

#include "bench/gpu/cuda/driver.h"

namespace mgpu::gpu_trial::cuda {

// Prints the line "<name>=<value>" to standard output and flushes it.
void print(const char* name, const std::string& value);
void print(const char* name, unsigned long long value);

// All of these programs print `mps`, whether they are clients of MPS.

// Prints device, uuid, multiprocessors, cuda_version, total_mib, free_mib, and the result, which is
// "correct" or "wrong".
int vector_add(const Driver& driver);
// Prints total_mib and free_mib as the program sees them; largest_mib, the largest allocation;
// `beyond`, the error of the smallest allocation that failed, if any; and pieces_mib, the sum of
// allocations of 16 MiB.
int largest(const Driver& driver, unsigned long upto_mib);
// Prints ready=1 when the memory is allocated. Ends at the end of its input.
int hold(const Driver& driver, unsigned long mib);
// Prints multiprocessors and ready=1; then, for each line of the input, `rate` in 10^9 thread
// iterations per second. Ends at the end of its input.
int measure(const Driver& driver, std::chrono::milliseconds duration);
// Prints ready=1 while kernels run; then, about ten times a second, progress=<completed kernels>
// and gap_ms, the longest time between the ends of two batches of kernels since it was ready. There
// is always work in flight. Ends at the end of its input.
int busy(const Driver& driver);
// These programs do not use CUDA.

// Tries to make a file in the folder of `path`, to put another socket in the place of `path`, and
// to remove it. Prints create, rename and unlink, each "done" or the error.
int replace(const std::string& path);
// What a container can do with the files of a folder. Prints `entries`, their names; `fifo`, the
// result of writing to FIFOs: "none", "done" or the error; and connected=<number of sockets>. Then
// it prints ready=1, and keeps the connections, on which it sends nothing, until its input ends.
int connect_silently(const std::string& folder);

}  // namespace mgpu::gpu_trial::cuda
