// Assertions that stay on in production: a broken invariant ends the process, and the next start
// rebuilds everything from the API server. Never use them on input from outside.
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

// `message` says which state was found, as a string literal.
#define MGPU_CHECK(condition, message)                                            \
  do {                                                                            \
    if (!(condition)) [[unlikely]]                                                \
      ::mgpu::check_failed(#condition, message, std::source_location::current()); \
  } while (false)

// The second half of a pair of checks, which costs more than the code it checks: in builds without
// NDEBUG, that is in every test, and not in what users run. There the condition is only compiled.
#ifdef NDEBUG
#define MGPU_DEBUG_CHECK(condition, message)       \
  do {                                             \
    if (false) MGPU_CHECK((condition), (message)); \
  } while (false)
#else
#define MGPU_DEBUG_CHECK(condition, message) MGPU_CHECK(condition, message)
#endif
