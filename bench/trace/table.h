// Comma-separated text whose first line names the columns. Quotes and spaces have no special
// meaning. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace mgpu::trace {

class Table {
 public:
  // REQUIRES: `text` outlives the table. `source` is its name in error messages. Lines may end with
  // LF or CR LF; empty lines are skipped. Errors: there is no header, a column is named twice, the
  // number of values in a line differs from the header, there are more than `rows_max` rows, a line
  // or the header is over its limit (limits.h).
  static Result<Table> read(std::string_view text, std::string source, std::size_t rows_max);

  std::size_t rows() const { return lines_.size(); }
  // Returns a negative number if there is no such column.
  int find_column(std::string_view name) const;
  // Error: there is no such column. The message lists the columns of the table.
  Result<int> column(std::string_view name) const;

  // REQUIRES: row < rows(), and `column` is a result of find_column or column and not negative.
  std::string_view text(std::size_t row, int column) const;
  // Error: the value is not a whole number from least to most.
  Result<std::int64_t> number(std::size_t row, int column, std::int64_t least,
                              std::int64_t most) const;
  // An error about one value, such as: FILE line 7, column num_gpu: "x"; expected ...
  Error value_error(std::size_t row, int column, const std::string& expected) const;

 private:
  explicit Table(std::string source) : source_(std::move(source)) {}
  Result<void> read_header(std::string_view line, std::size_t number);
  Result<void> add_line(std::string_view line, std::size_t number);

  struct Line {
    std::size_t number;       // line number in the file, from 1
    std::size_t first_value;  // into values_
  };
  std::string source_;
  std::size_t header_line_ = 1;
  std::vector<std::string_view> columns_;
  std::vector<Line> lines_;
  std::vector<std::string_view> values_;
};

}  // namespace mgpu::trace
