#include "common/base/utc_text.h"

#include <fmt/chrono.h>

namespace mgpu {

std::string utc_text(std::chrono::sys_seconds time) {
  return fmt::format("{:%FT%TZ}", time);
}

std::string utc_now() {
  return utc_text(std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()));
}

}  // namespace mgpu
