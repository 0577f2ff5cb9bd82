// Assertions that are active in production, too: a broken invariant aborts the process, and the
// next start rebuilds everything from the API server. Never use them to validate input.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>

namespace mgpu {

[[noreturn]] inline void check_failed(const char* condition, const char* message,
                                      std::source_location at) {
  std::fprintf(stderr, "%s:%u: check failed: %s: %s\n", at.file_name(),
               static_cast<unsigned>(at.line()), condition, message);
  std::abort();
}

}  // namespace mgpu

// `message` is a string literal that describes the broken state.
#define MGPU_CHECK(condition, message)                                            \
  do {                                                                            \
    if (!(condition)) [[unlikely]]                                                \
      ::mgpu::check_failed(#condition, message, std::source_location::current()); \
  } while (false)

// A check that costs more than the code it checks. It is active in builds without NDEBUG, which
// are those of the tests. In release builds the condition is compiled but not evaluated.
#ifdef NDEBUG
#define MGPU_DEBUG_CHECK(condition, message)       \
  do {                                             \
    if (false) MGPU_CHECK((condition), (message)); \
  } while (false)
#else
#define MGPU_DEBUG_CHECK(condition, message) MGPU_CHECK(condition, message)
#endif
