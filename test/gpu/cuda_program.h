// A program that uses the driver by names, as those of share_history_client.cc and kit/ do.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace mgpu::fake_gpu {

using Handle = void*;
using Pointer = std::uint64_t;

inline void* library = nullptr;
inline const char* step = "cuInit";

// REQUIRES: the arguments have the types of the function. -1 if there is none.
template <class... Arguments>
int call_in(void* from, const char* name, Arguments... arguments) {
  step = name;
  void* const found = ::dlsym(from, name);
  return found != nullptr ? reinterpret_cast<int (*)(Arguments...)>(found)(arguments...) : -1;
}

template <class... Arguments>
int call(const char* name, Arguments... arguments) {
  return call_in(library, name, arguments...);
}

inline void must(int code) {
  if (code == 0) return;
  std::printf("%s: error %d\n", step, code);
  std::exit(1);
}

// CUmemPoolProps and CUmemAllocationProp begin with a type, types of handles and a place.
struct Properties {
  int type = 1;
  int handle_types = 0;
  int location_type = 1;
  int location = 0;
  unsigned char other[88] = {};
};

}  // namespace mgpu::fake_gpu
