// The checks of mgpu-check-share, in the root of a container (main.cc).
#pragma once

#include <cstdint>

namespace mgpu::share {

// A card as a container with a share has it.
struct CheckedCard {
  const char* uuid;
  std::uint64_t context_bytes;  // what a context reserves
  const char* libcuda;          // the path of the library in the place of libcuda.so.1
};

// Makes the pages of a share, runs two programs in it, and prints what they found. Returns the exit
// status.
int run_checks(const CheckedCard& card);

}  // namespace mgpu::share
