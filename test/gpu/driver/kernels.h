// What kernels compute, and how long they take: those of bench/gpu/cuda/kernels.h. All others
// compute nothing, and time.h says how long they take.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "test/gpu/driver/graphs.h"
#include "test/gpu/driver/time.h"

namespace mgpu::fake_gpu {

struct Function;

struct Launch {
  KernelTime time{};
  // With the lock of the process; empty if there is nothing to compute.
  std::function<void()> compute{};
};

// With copies of its arguments.
Launch launch_of(const Function& function, std::uint64_t blocks, std::uint64_t threads,
                 void** arguments);

using Dimensions = std::array<unsigned, 3>;

// The begin of CUDA_KERNEL_NODE_PARAMS in all its versions.
struct KernelNode {
  Function* function;
  Dimensions grid;
  Dimensions block;
  unsigned shared_bytes;
  void** arguments;
};
// Sets what the node does, with copies of its arguments. With the lock of the process. Returns a
// result.
int make_work(const KernelNode& node, Work& work);

}  // namespace mgpu::fake_gpu
