#include "bench/trace/table.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "bench/trace/limits.h"
#include "common/base/text.h"

namespace mgpu::trace {
namespace {

// The next line without its line end; not set at the end of the text.
std::optional<std::string_view> take_line(std::string_view& rest) {
  if (rest.empty()) return std::nullopt;
  const std::size_t end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

template <class Add>
void for_each_value(std::string_view line, Add add) {
  for (;;) {
    const std::size_t comma = line.find(',');
    add(line.substr(0, comma));
    if (comma == std::string_view::npos) return;
    line.remove_prefix(comma + 1);
  }
}

std::string place(const std::string& source, std::size_t line) {
  return source + " line " + std::to_string(line);
}

std::string joined(const std::vector<std::string_view>& names) {
  std::string text;
  for (const auto name : names) text.append(text.empty() ? "" : ",").append(name);
  return in_quotes(text);
}

}  // namespace

Result<Table> Table::read(std::string_view text, std::string source, std::size_t rows_max) {
  Table table(std::move(source));
  std::size_t number = 0;
  while (const auto line = take_line(text)) {
    ++number;
    if (line->size() > limits::kLineBytesMax)
      return error(place(table.source_, number) + ": has " + std::to_string(line->size()) +
                   " bytes; expected at most " + std::to_string(limits::kLineBytesMax));
    if (line->empty()) continue;
    if (table.rows() == rows_max)
      return error(place(table.source_, number) + ": expected at most " + std::to_string(rows_max) +
                   " rows");
    auto added =
        table.columns_.empty() ? table.read_header(*line, number) : table.add_line(*line, number);
    if (!added) return added.error();
  }
  if (!table.columns_.empty()) return table;
  return error(table.source_ + " is empty; expected a first line that names the columns");
}

Result<void> Table::read_header(std::string_view line, std::size_t number) {
  header_line_ = number;
  const std::string where = place(source_, number);
  if (line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  for_each_value(line, [this](std::string_view name) { columns_.push_back(name); });
  if (columns_.size() > limits::kColumnsMax)
    return error(where + ": names " + std::to_string(columns_.size()) +
                 " columns; expected at most " + std::to_string(limits::kColumnsMax));
  for (auto name = columns_.begin(); name != columns_.end(); ++name)
    if (std::find(columns_.begin(), name, *name) != name)
      return error(where + ": names the column " + in_quotes(*name) + " twice");
  return {};
}

Result<void> Table::add_line(std::string_view line, std::size_t number) {
  const std::size_t first = values_.size();
  for_each_value(line, [this](std::string_view value) { values_.push_back(value); });
  const std::size_t count = values_.size() - first;
  if (count != columns_.size())
    return error(place(source_, number) + ": has " + std::to_string(count) +
                 " values; expected one for each of the " + std::to_string(columns_.size()) +
                 " columns " + joined(columns_));
  lines_.push_back({number, first});
  return {};
}

int Table::find_column(std::string_view name) const {
  const auto found = std::find(columns_.begin(), columns_.end(), name);
  return found == columns_.end() ? -1 : static_cast<int>(found - columns_.begin());
}

Result<int> Table::column(std::string_view name) const {
  const int found = find_column(name);
  if (found >= 0) return found;
  return error(place(source_, header_line_) + ": has no column " + std::string(name) +
               "; it names " + joined(columns_));
}

std::string_view Table::text(std::size_t row, int column) const {
  return values_[lines_[row].first_value + static_cast<std::size_t>(column)];
}

Result<std::int64_t> Table::number(std::size_t row, int column, std::int64_t least,
                                   std::int64_t most) const {
  const std::string_view value = text(row, column);
  std::int64_t number = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool whole = code == std::errc() && end == value.data() + value.size();
  if (whole && number >= least && number <= most) return number;
  return value_error(
      row, column, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
}

Error Table::value_error(std::size_t row, int column, const std::string& expected) const {
  return error(place(source_, lines_[row].number) + ", column " +
               std::string(columns_[static_cast<std::size_t>(column)]) + ": " +
               in_quotes(text(row, column)) + "; expected " + expected);
}

}  // namespace mgpu::trace
