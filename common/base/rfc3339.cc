#include "common/base/rfc3339.h"

#include <algorithm>
#include <charconv>

#include "common/base/text.h"

namespace mgpu {
namespace {

using std::chrono::sys_seconds;

// The digits of `text` from `at` on, as a number; -1 if they are none.
int digits_at(std::string_view text, std::size_t at, std::size_t count) {
  const std::string_view part = text.substr(std::min(at, text.size()), count);
  int number = 0;
  const auto end = part.data() + part.size();
  const bool digits = part.size() == count &&
                      part.find_first_not_of("0123456789") == std::string_view::npos &&
                      std::from_chars(part.data(), end, number).ptr == end;
  return digits ? number : -1;
}

// "Z", "+01:00" or "-01:00".
std::optional<std::chrono::minutes> read_offset(std::string_view text) {
  if (text == "Z" || text == "z") return std::chrono::minutes(0);
  const int hours = digits_at(text, 1, 2);
  const int minutes = digits_at(text, 4, 2);
  const bool is_sign = !text.empty() && (text[0] == '+' || text[0] == '-');
  if (!is_sign || text.size() != 6 || text[3] != ':' || hours < 0 || hours > 23 || minutes < 0 ||
      minutes > 59) {
    return std::nullopt;
  }
  const std::chrono::minutes offset(hours * 60 + minutes);
  return text[0] == '+' ? offset : -offset;
}

}  // namespace

std::optional<sys_seconds> read_rfc3339(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00";
  if (text.size() <= kForm.size()) return std::nullopt;
  for (const std::size_t at : {4U, 7U, 10U, 13U, 16U}) {
    if (to_lower(text[at]) != to_lower(kForm[at])) return std::nullopt;
  }
  const std::chrono::year_month_day day{
      std::chrono::year(digits_at(text, 0, 4)),
      std::chrono::month(static_cast<unsigned>(digits_at(text, 5, 2))),
      std::chrono::day(static_cast<unsigned>(digits_at(text, 8, 2)))};
  const int hour = digits_at(text, 11, 2);
  const int minute = digits_at(text, 14, 2);
  const int second = digits_at(text, 17, 2);
  const bool in_day = hour >= 0 && hour < 24 && minute >= 0 && minute < 60 && second >= 0 &&
                      second <= 60;  // with a leap second
  if (digits_at(text, 0, 4) < 0 || !day.ok() || !in_day) return std::nullopt;
  text.remove_prefix(kForm.size());
  if (text[0] == '.') {
    const std::size_t end = text.find_first_not_of("0123456789", 1);
    if (end == 1 || end == std::string_view::npos) return std::nullopt;
    text.remove_prefix(end);
  }
  const auto offset = read_offset(text);
  if (!offset) return std::nullopt;
  return sys_seconds(std::chrono::sys_days(day)) + std::chrono::hours(hour) +
         std::chrono::minutes(minute) + std::chrono::seconds(second) - *offset;
}

}  // namespace mgpu
