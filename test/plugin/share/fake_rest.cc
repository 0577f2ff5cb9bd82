// The functions that fake_driver.cc has not: they are there and not supported.
#include <cstring>

extern "C" int cuMemAlloc_v99(unsigned long long*, unsigned long);

#define DRIVER_FUNCTION(name, kind)                                    \
  extern "C" __attribute__((weak, visibility("default"))) int name() { \
    return 801;                                                        \
  }
#include "plugin/share/driver_functions.def"
#undef DRIVER_FUNCTION

extern "C" void* fake_address_of(const char* name) {
  if (std::strcmp(name, "cuMemAlloc_v99") == 0) return reinterpret_cast<void*>(&cuMemAlloc_v99);
#define DRIVER_FUNCTION(function, kind) \
  if (std::strcmp(name, #function) == 0) return reinterpret_cast<void*>(&function);
#include "plugin/share/driver_functions.def"
#undef DRIVER_FUNCTION
  return nullptr;
}
