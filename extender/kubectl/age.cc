#include "extender/kubectl/age.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace mgpu::kubectl {

using std::chrono::days;
using std::chrono::duration_cast;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

Time clock_now() {
  return std::chrono::time_point_cast<seconds>(std::chrono::system_clock::now());
}

std::string age_text(const std::optional<Time>& created, Time now) {
  if (!created) return "";
  const seconds age = std::max(now - *created, seconds(0));
  if (age < minutes(2)) return fmt::format("{}s", age.count());
  if (age < hours(2)) return fmt::format("{}m", duration_cast<minutes>(age).count());
  if (age < days(2)) return fmt::format("{}h", duration_cast<hours>(age).count());
  return fmt::format("{}d", duration_cast<days>(age).count());
}

}  // namespace mgpu::kubectl
