#include "plugin/node/utc_time.h"

#include <fmt/format.h>

#include <chrono>

namespace mgpu::node {

std::string utc_now() {
  using std::chrono::floor;
  const auto now = floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const auto day = floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(now - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count(), time.seconds().count());
}

}  // namespace mgpu::node
