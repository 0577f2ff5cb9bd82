#include "common/base/utc_text.h"

#include <fmt/format.h>

namespace mgpu {
namespace {

using std::chrono::floor;

// Everything before the fraction and the "Z".
std::string up_to_seconds(std::chrono::sys_seconds time) {
  const auto day = floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

}  // namespace

std::string utc_text(std::chrono::sys_seconds time) {
  return up_to_seconds(time) + 'Z';
}

std::string utc_text(std::chrono::sys_time<std::chrono::milliseconds> time) {
  const auto second = floor<std::chrono::seconds>(time);
  return fmt::format("{}.{:03}Z", up_to_seconds(second), (time - second).count());
}

std::string utc_now() {
  return utc_text(floor<std::chrono::seconds>(std::chrono::system_clock::now()));
}

}  // namespace mgpu
