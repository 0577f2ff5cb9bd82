// The first versions of two functions of the C library. The current ones are of glibc 2.34, where
// they moved from libdl.so.2, which libraries in containers need on older systems.
#pragma once

#include <dlfcn.h>

#if defined(__x86_64__)
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver dlopen,dlopen@GLIBC_2.17");
__asm__(".symver dlsym,dlsym@GLIBC_2.17");
#endif
