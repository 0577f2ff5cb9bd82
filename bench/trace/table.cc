#include "bench/trace/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/trace/limits.h"
#include "common/base/text.h"

namespace mgpu::trace {
namespace {

std::vector<std::string_view> values_of(std::string_view line) {
  std::vector<std::string_view> values;
  for (;;) {
    const std::size_t comma = line.find(',');
    values.push_back(line.substr(0, comma));
    if (comma == line.npos) return values;
    line.remove_prefix(comma + 1);
  }
}

// The first problem of the header; empty: there is none.
std::string problem_of(const std::vector<std::string_view>& columns,
                       std::span<const std::string_view> wanted) {
  if (columns.size() > limits::kColumnsMax) {
    return fmt::format("names {} columns; expected at most {}", columns.size(),
                       limits::kColumnsMax);
  }
  for (auto name = columns.begin(); name != columns.end(); ++name) {
    if (std::find(columns.begin(), name, *name) != name) {
      return fmt::format("names the column {} twice", in_quotes(*name));
    }
  }
  for (const std::string_view name : wanted) {
    if (std::ranges::find(columns, name) != columns.end()) continue;
    return fmt::format("has no column {}; it names {}", name,
                       in_quotes(fmt::format("{}", fmt::join(columns, ","))));
  }
  return {};
}

}  // namespace

Row::Row(std::string place, const std::vector<std::string_view>& columns,
         std::vector<std::string_view> values)
    : place_(std::move(place)), columns_(columns), values_(std::move(values)) {
  if (values_.size() == columns_.size()) return;
  problem_ = fmt::format("{}: has {} values; expected one for each of the {} columns {}", place_,
                         values_.size(), columns_.size(),
                         in_quotes(fmt::format("{}", fmt::join(columns_, ","))));
  values_.resize(columns_.size());
}

std::string_view Row::text(std::string_view column) const {
  const auto found = std::ranges::find(columns_, column);
  return found == columns_.end() ? std::string_view()
                                 : values_[static_cast<std::size_t>(found - columns_.begin())];
}

std::int64_t Row::number(std::string_view column, std::int64_t least, std::int64_t most) {
  const std::string_view value = text(column);
  const auto number = parse_number<std::int64_t>(value);
  if (number && *number >= least && *number <= most) return *number;
  refuse(column, value, fmt::format("a whole number from {} to {}", least, most));
  return 0;
}

void Row::refuse(std::string_view column, std::string_view value, const std::string& expected) {
  if (!problem_.empty()) return;
  problem_ =
      fmt::format("{}, column {}: {}; expected {}", place_, column, in_quotes(value), expected);
}

Result<void> read_table(std::string_view text, const std::string& source, std::size_t rows_max,
                        std::span<const std::string_view> columns,
                        const std::function<void(Row&)>& read) {
  std::vector<std::string_view> header;
  std::size_t rows = 0;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string place = fmt::format("{} line {}", source, number);
    std::string_view line = take_line(text);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.size() > limits::kLineBytesMax) {
      return error(fmt::format("{}: has {} bytes; expected at most {}", place, line.size(),
                               limits::kLineBytesMax));
    }
    if (line.empty()) continue;
    if (header.empty()) {
      header = values_of(line.starts_with("\xEF\xBB\xBF") ? line.substr(3) : line);
      if (const std::string problem = problem_of(header, columns); !problem.empty()) {
        return error(place + ": " + problem);
      }
      continue;
    }
    if (rows++ == rows_max) {
      return error(fmt::format("{}: expected at most {} rows", place, rows_max));
    }
    Row row(place, header, values_of(line));
    if (row.problem().empty()) read(row);
    if (!row.problem().empty()) return error(row.problem());
  }
  if (!header.empty()) return {};
  return error(source + " is empty; expected a first line that names the columns");
}

}  // namespace mgpu::trace
