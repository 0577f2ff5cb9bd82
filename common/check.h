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
