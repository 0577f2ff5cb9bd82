#include "common/base/utc_text.h"

#include <fmt/chrono.h>

namespace mgpu {

std::string utc_text(std::chrono::sys_seconds time) {
  return fmt::format("{:%FT%TZ}", time);
}

std::string utc_micro_text(std::chrono::sys_time<std::chrono::microseconds> time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  return fmt::format("{:%FT%T}.{:06}Z", seconds, (time - seconds).count());
}

std::string utc_micro_now() {
  return utc_micro_text(
      std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()));
}

std::string utc_now() {
  return utc_text(std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()));
}

}  // namespace mgpu
