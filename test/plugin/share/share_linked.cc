// A program that is linked with -lcuda, and uses functions that the library replaces and others.
#include <dlfcn.h>

extern "C" int cuInit(unsigned flags);
extern "C" int cuMemAlloc_v2(unsigned long long* address, unsigned long bytes);
extern "C" int cuDriverGetVersion(int* version);

int main() {
  constexpr int kNotSupported = 801;  // the stand-in of the driver has no version
  constexpr int kInvalidContext = 201;
  // What is only in the driver's own library is in no scope of the program.
  if (dlsym(RTLD_DEFAULT, "cuMemAlloc_v99") != nullptr) return 3;
  int version = 0;
  unsigned long long address = 0;
  if (cuInit(0) != 0 || cuDriverGetVersion(&version) != kNotSupported) return 1;
  return cuMemAlloc_v2(&address, 1) == kInvalidContext ? 0 : 2;
}
