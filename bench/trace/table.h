// Comma-separated text whose first line names the columns: no quotes, no blanks around values.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace mgpu::trace {

class Table {
 public:
  // `text` outlives the table; `source` names it in errors. Lines may end with LF or CR LF; empty
  // ones are skipped. Errors: no header, a column named twice, a line with another number of values
  // than the header, more than `rows_max` rows, a line or header over its limit (limits.h).
  static Result<Table> read(std::string_view text, std::string source, std::size_t rows_max);

  std::size_t rows() const { return lines_.size(); }
  // Negative where there is no such column.
  int find_column(std::string_view name) const;
  // Errors: there is no such column; the sentence lists those that there are.
  Result<int> column(std::string_view name) const;

  // REQUIRES: row < rows(), `column` from find_column or column and not negative.
  std::string_view text(std::size_t row, int column) const;
  // Errors: not a whole number within least .. most.
  Result<std::int64_t> number(std::size_t row, int column, std::int64_t least,
                              std::int64_t most) const;
  // About one value: "FILE line 7, column num_gpu: "x": expected ...".
  Error complaint(std::size_t row, int column, const std::string& expected) const;

 private:
  explicit Table(std::string source) : source_(std::move(source)) {}
  Result<void> read_header(std::string_view line, std::size_t number);
  Result<void> add_line(std::string_view line, std::size_t number);

  struct Line {
    std::size_t number;       // in the file, from 1
    std::size_t first_value;  // into values_
  };
  std::string source_;
  std::size_t header_line_ = 1;
  std::vector<std::string_view> columns_;
  std::vector<Line> lines_;
  std::vector<std::string_view> values_;
};

}  // namespace mgpu::trace
